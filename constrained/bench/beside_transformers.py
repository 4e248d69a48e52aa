"""Decoding speed of Transformers on the same device, to stand beside ours; imported only where it is asked for."""

from __future__ import annotations

import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch


class TransformersBench:
    """Measures `generate`, greedy, in batches."""

    def __init__(self, source: Mapping[str, Any] | Path, device: torch.device, dtype: torch.dtype) -> None:
        """`source`: the fields of a `config.json`, for random weights, or a folder or GGUF file.

        Raises:
            ImportError: Transformers is not installed.
        """
        import transformers

        transformers.logging.set_verbosity_error()
        transformers.logging.disable_progress_bar()
        automatic: Any = transformers.AutoModelForCausalLM
        if not isinstance(source, Path):
            with device:
                model = automatic.from_config(transformers.AutoConfig.for_model(**source), dtype=dtype)
        elif source.is_dir():
            model = automatic.from_pretrained(source, dtype=dtype)
        else:
            model = automatic.from_pretrained(source.parent, gguf_file=source.name, dtype=dtype)
        self._model = model.to(device).eval()
        self._vocab_size: int = model.config.vocab_size

    def step_ms(self, batch: int, prompt: int, tokens: int) -> float:
        """Milliseconds of a step: what `tokens` more take than one, so that the prompt is no part of it."""
        generator = torch.Generator().manual_seed(batch)
        ids = torch.randint(0, self._vocab_size, (batch, prompt), generator=generator).to(self._model.device)
        self._seconds(ids, 2)
        return 1e3 * (self._seconds(ids, tokens + 1) - self._seconds(ids, 1)) / tokens

    def _seconds(self, ids: torch.Tensor, count: int) -> float:
        begin = time.perf_counter()
        self._model.generate(
            ids, attention_mask=torch.ones_like(ids), max_new_tokens=count, min_new_tokens=count, do_sample=False
        )
        if ids.is_cuda:
            torch.cuda.synchronize(ids.device)
        return time.perf_counter() - begin
