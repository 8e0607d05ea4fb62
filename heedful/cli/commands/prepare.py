"""`heedful prepare`: the text of a run, encoded before it is trained; on many cores or machines."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from heedful.cli.commands import options
from heedful.cli.commands.bulk import ray_option, report, work_on, workers_option
from heedful.cli.commands.options import FILE
from heedful.cli.commands.train import flag_layer, text_options
from heedful.cli.messages import say

if TYPE_CHECKING:
    from heedful.train.run.text import RunText


@click.command(short_help="Encode the text of a run before it is trained.")
@options.recipe
@text_options
@click.option("-o", "--output", "run", type=FILE, required=True, help="Run folder.")
@options.preset
@options.settings
@click.option("--from", "from_model", type=FILE, metavar="MODEL", help="Take the vocabulary of this model.")
@workers_option
@ray_option
@click.option("--plan", "only_plan", is_flag=True, help="Cut the text into parts, for heedful bulk run, and leave.")
@options.family
def prepare(
    recipe: Path | None,
    run: Path,
    preset: str | None,
    settings: tuple[str, ...],
    from_model: Path | None,
    workers: int | None,
    address: str | None,
    only_plan: bool,
    **flags: Any,
) -> None:
    """Make the vocabulary and the encoded text of a run, with which heedful train begins at once.

    With --workers or --ray the text is encoded in parts. With --plan it is only cut into parts: heedful bulk run
    RUN/encoding encodes them, as often and on as many machines as you like, and the same command without --plan joins
    them.
    """
    from heedful.data.atomic import remove_folder
    from heedful.data.parts.plan import PLAN
    from heedful.data.run_folder import ENCODING
    from heedful.train.run.plan import TrainingRequest, decide
    from heedful.train.run.start import interruptible, prepare_run

    layers = tuple(options.flag_layers(flag_layer(flags), settings))
    decided = decide(TrainingRequest(run, preset, layers, from_model, "cpu", recipe))
    plan = replace(decided, messages=())  # they are about training, which may be elsewhere
    is_in_parts = workers or address or only_plan or (run / ENCODING / PLAN).exists()
    encode = partial(_encode_in_parts, run, workers, address, only_plan) if is_in_parts else None
    with interruptible(run, say=say):
        prepare_run(plan, say=say, encode=encode)
        if not only_plan:
            remove_folder(run / ENCODING)


def _encode_in_parts(run: Path, workers: int | None, address: str | None, only_plan: bool, text: RunText) -> None:
    from heedful.data.parts.encoding import join_shards, plan_encoding
    from heedful.data.parts.folder import PartFolder
    from heedful.data.parts.plan import describe
    from heedful.data.parts.work import PATIENCE
    from heedful.data.run_folder import ENCODING, TOKENIZER
    from heedful.train.run.text import describe as describe_shards

    root = run / ENCODING
    plan = plan_encoding(root, text.source, text.target, text.encoding, run / TOKENIZER, say)
    folder = PartFolder(root, plan)
    if only_plan:
        say(f"{root}: {describe(plan)}; heedful bulk run {root} encodes them, and heedful prepare joins them")
        return
    numbers = range(len(plan.parts))
    with folder.held():
        work_on(folder, numbers, workers, address, PATIENCE)
        report(folder, numbers)
        shards = join_shards(folder, text.shards, text.source, text.target, progress=lambda counts: None)
    say(f"{text.kind}: {describe_shards(shards)}")
