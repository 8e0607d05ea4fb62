"""Translation over HTTP: the APIs, the queue, the limits. It does not know how a model computes."""
