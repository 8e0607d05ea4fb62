"""`heedful serve`: translation over HTTP, and the page."""

from __future__ import annotations

import os
from pathlib import Path

import click

from heedful.cli.commands import options
from heedful.cli.commands.options import FILE
from heedful.cli.commands.translate import note_engine
from heedful.cli.messages import say

KEYS = "HEEDFUL_API_KEYS"
AT_LEAST_0, AT_LEAST_1 = click.IntRange(0), click.IntRange(1)
MODEL_HELP = "Run folder, model folder or checkpoint; several give several pairs (of one pair: an ensemble)."


@click.command(short_help="The page and three APIs, over HTTP.")
@click.option("-m", "--model", "models", type=FILE, required=True, multiple=True, help=MODEL_HELP)
@click.option("--host", default="127.0.0.1", show_default=True, help="0.0.0.0: every machine that reaches this one.")
@click.option("--port", type=click.IntRange(0, 65535), default=5000, show_default=True, help="0: any that is free.")
@click.option("--api-key", "keys", multiple=True, envvar=KEYS, help=f"Only clients with such a key; or keys in {KEYS}.")
@click.option("--rate-limit", type=AT_LEAST_0, default=0, help="Requests a minute of a client; 0: no limit.")
@click.option("--char-limit", "characters", type=AT_LEAST_1, default=20_000, show_default=True, help="Of a request.")
@click.option("--batch-limit", "batch", type=AT_LEAST_1, default=128, show_default=True, help="Texts of a request.")
@click.option("--body-limit", "body", type=AT_LEAST_1, default=2**20, show_default=True, help="Bytes of a request.")
@click.option("--alternatives-limit", "alternatives", type=AT_LEAST_0, default=8, show_default=True, help="Of a text.")
@click.option("--beam-limit", "beam", type=AT_LEAST_1, default=16, show_default=True, help="Of /api/trace.")
@click.option("--queue-limit", type=AT_LEAST_1, default=2048, show_default=True, help="Sentences that may wait.")
@click.option("--connection-limit", "connections", type=AT_LEAST_1, default=900, show_default=True, help="At once.")
@click.option("--drain-seconds", type=AT_LEAST_0, default=30, show_default=True, help="To finish in, on SIGTERM.")
@options.engine
@options.device
@options.family
def serve(
    models: tuple[Path, ...],
    host: str,
    port: int,
    keys: tuple[str, ...],
    rate_limit: int,
    queue_limit: int,
    drain_seconds: int,
    engine: str,
    device: str,
    **limits: int,
) -> None:
    """Serve the page, its own API, LibreTranslate's and DeepL's; Ctrl-C or SIGTERM ends it when all is answered."""
    if not all(key.strip() for key in keys) or (KEYS in os.environ and not keys):  # all would be let in
        name = "--api-key" if keys else KEYS
        raise click.UsageError(f"{name} is empty; give a key, or leave it out altogether to let everybody in")
    _check_libraries()
    from heedful.serve.app import create_app
    from heedful.serve.limits import Limits
    from heedful.serve.server import listen, run

    with listen(host, port) as listener:  # before the models, which take longer
        app = create_app(
            models,
            limits=Limits(**limits),
            keys=keys,
            requests_per_minute=rate_limit,
            queue_size=queue_limit,
            device=device,
            engine=engine,
        )
        address, number = listener.getsockname()[:2]
        url = f"http://{f'[{address}]' if ':' in address else address}:{number}"
        for pair in app.state.gateway.service.pairs.values():
            note_engine(pair.translator)
        languages = ", ".join(f"{source} → {target}" for source, target in app.state.gateway.service.pairs)
        run(app, listener, on_ready=lambda: say(f"{languages}: {url}"), drain_seconds=drain_seconds)


def _check_libraries() -> None:
    from heedful.config.optional_packages import SERVER, install_line, missing
    from heedful.errors import DeviceError

    if lacking := missing(SERVER):
        raise DeviceError(f"heedful serve needs {', '.join(lacking)}; {install_line(*lacking)}")
