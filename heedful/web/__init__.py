"""The server: translation over HTTP in the languages that clients already speak, and the page.

`server.py` puts it together; `libretranslate.py`, `deepl.py` and `inside.py` (`/api/`) speak to clients; `service.py`
knows which model translates what; `queue.py` brings the sentences of all clients into batches. Nothing imports this
folder but its command.
"""
