"""Which packing a model decodes in when none is asked for: the fastest that the quality gate lets through.

The gate is run once for a file; what it found is remembered beside the prepared conversion.  A model whose conversion is
too large to be kept is not packed unasked: it would be packed anew at every start.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable
from pathlib import Path

from torch import Tensor

from engine.config import ModelConfig
from engine.devices import Packing
from engine.errors import ModelError
from engine.loading.folders import replace_text
from engine.loading.prepared import LARGEST
from engine.model import Model
from engine.packed import pack_weights
from engine.quality import TEXTS, VERSION, Quality, compare
from engine.text import Text

Entry = tuple[ModelConfig, dict[str, Tensor], Text]

FASTEST_FIRST: tuple[Packing, ...] = ("int4", "int8")


def default_packing(record: Path, plain: Callable[[], Entry]) -> Packing | None:
    """The first of `FASTEST_FIRST` that passes, `None` where none does.

    Args:
        record: where the measurements are remembered.
        plain: loads the model in bfloat16; called only where nothing is remembered.
    """
    measured = read_record(record)
    if measured is None:
        measured = measure(*plain())
        write_record(record, measured)
    return next((packing for packing in FASTEST_FIRST if packing in measured and measured[packing].passes), None)


def measure(config: ModelConfig, weights: dict[str, Tensor], text: Text) -> dict[Packing, Quality]:
    """The quality of each packing that the model's shapes allow, up to the first that passes."""
    sequences = [text.encode(each)[: config.context_length] for each in TEXTS]
    reference = Model(config, weights)
    measured: dict[Packing, Quality] = {}
    if sum(weight.nbytes for weight in weights.values()) > LARGEST:
        return measured
    for packing in FASTEST_FIRST:
        try:
            model = Model(config, pack_weights(weights, packing))
        except ModelError:
            continue  # a shape that this packing's kernel does not take
        measured[packing] = compare(model, reference, sequences)
        if measured[packing].passes:
            break
    return measured


def read_record(record: Path) -> dict[Packing, Quality] | None:
    """What was measured before; `None` where nothing was, or with another version of the texts."""
    try:
        kept = json.loads(record.read_text("utf-8"))
        if kept["version"] != VERSION:
            return None
        return {packing: Quality(**kept[packing]) for packing in FASTEST_FIRST if packing in kept}
    except (OSError, ValueError, KeyError, TypeError):
        return None  # never measured, or a record that cannot be read: it is measured again


def write_record(record: Path, measured: dict[Packing, Quality]) -> None:
    """Remembers measurements; where the folder cannot be written they are taken again next time."""
    kept = {packing: dataclasses.asdict(quality) for packing, quality in measured.items()}
    try:
        record.parent.mkdir(parents=True, exist_ok=True)
        replace_text(record, json.dumps({"version": VERSION, **kept}))
    except OSError:
        return
