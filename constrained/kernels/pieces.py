"""Kernels in pieces: each is typed and lowered once, and optimised where Python calls it.

Left alone, Numba makes a library of every function, once for each kind of integers it is called with: typed, lowered, optimised,
translated, with a way in from Python.  Whoever calls it gets a copy of that, optimises it again and translates it again.  Here a
function that other kernels call is a *piece*: its own code and no more.  What Python calls is an *entry*: its piece and all
that this one calls, linked, optimised and translated together.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import suppress
from functools import cached_property
from typing import Any, ClassVar

from numba.core import compiler, types
from numba.core.caching import FunctionCache, NullCache
from numba.core.codegen import JITCodeLibrary
from numba.core.compiler_machinery import PassManager, register_pass
from numba.core.dispatcher import _FunctionCompiler  # type: ignore[attr-defined]
from numba.core.registry import CPUDispatcher
from numba.core.typed_passes import NativeLowering
from numba.core.typing import Context


class _Library(JITCodeLibrary):  # type: ignore[misc]
    """The code of a piece, or of the way into one from Python."""

    def __init__(self, codegen: Any, name: str) -> None:
        super().__init__(codegen, name)
        self._calls: list[_Library] = []
        self._own: Any = None

    def add_linking_library(self, library: Any) -> None:
        """`library` is called here; a piece need not be finished for that."""
        if isinstance(library, _Library):
            self._calls.append(library)
        else:
            super().add_linking_library(library)

    def finalize(self) -> None:
        """Link all pieces that are called from here, each once, then optimise and translate."""
        pieces = {self: None}
        waiting = [self]
        while waiting:
            for piece in waiting.pop()._calls:
                if piece not in pieces:
                    pieces[piece] = None
                    waiting.append(piece)
        self._shared()  # is not what it was afterwards
        for piece in list(pieces)[1:]:
            self._final_module.link_in(piece._shared(), preserve=True)
            self._linking_libraries.extend(piece._linking_libraries)
        super().finalize()

    def _shared(self) -> Any:
        """Its own code with functions of which one is kept where several are linked."""
        if self._own is None:
            self._own = self._final_module.clone()
            for function in self._own.functions:
                if not function.is_declaration and function.linkage.name == "external":
                    function.linkage = "linkonce_odr"
        return self._own


@register_pass(mutates_CFG=True, analysis_only=False)
class _PieceLowering(NativeLowering):  # type: ignore[misc]
    """Lowering to a library that is not finished."""

    _name = "piece_lowering"

    def run_pass(self, state: Any) -> bool:
        state.library = _Library(state.targetctx.codegen(), state.func_id.func_qualname)
        state.flags.no_compile = True
        super().run_pass(state)
        entry = object()  # what calls of it are told apart by, in place of a function
        state.cr = state.cr._replace(cfunc=entry)
        state.targetctx.insert_user_function(entry, state.cr.fndesc, [state.library])
        return True


class _Remembering(Context):  # type: ignore[misc]
    """A typing context that knows what calls and operators have come to with arguments of these types."""

    _known: ClassVar[dict[Any, Any]] = {}

    @classmethod
    def of(cls, context: Any) -> _Remembering:
        """One that shares everything with `context`."""
        made = object.__new__(cls)
        made.__dict__ = context.__dict__
        return made

    def resolve_function_type(self, func: Any, args: Any, kws: Any) -> Any:
        resolve = super().resolve_function_type
        if kws:
            return resolve(func, args, kws)
        return self._remembered((func, *args), lambda: resolve(func, args, kws))

    def resolve_setitem(self, target: Any, index: Any, value: Any) -> Any:
        resolve = super().resolve_setitem
        return self._remembered((None, target, index, value), lambda: resolve(target, index, value))

    def _remembered(self, key: tuple[Any, ...], resolve: Callable[[], Any]) -> Any:
        found = self._known.get(key)
        if found is None:
            found = resolve()
            if found is not None:
                self._known[key] = found
        return found


_NEEDLESS = frozenset(
    {
        compiler.WithLifting,
        compiler.InlineClosureLikes,
        compiler.RewriteSemanticConstants,
        compiler.DeadBranchPrune,
        compiler.RewriteDynamicRaises,
        compiler.MakeFunctionToJitFunction,
        compiler.InlineInlinables,
        compiler.FindLiterallyCalls,
        compiler.LiteralUnroll,
        compiler.LiteralPropagationSubPipelinePass,
        compiler.InlineOverloads,
        compiler.NopythonRewrites,
        compiler.DumpParforDiagnostics,
    }
)
"""Steps for what no kernel has: `with`, `raise` of what is not constant, functions inside functions, arithmetic on whole arrays."""


class _PieceCompiler(compiler.CompilerBase):  # type: ignore[misc]
    """Numba's steps for a function, without those that are needless."""

    def __init__(self, typing_context: Any, *arguments: Any) -> None:
        super().__init__(_Remembering.of(typing_context), *arguments)

    def define_pipelines(self) -> list[Any]:
        """Called by Numba."""
        steps = PassManager("piece")
        for step, about in compiler.DefaultPassBuilder.define_nopython_pipeline(self.state).passes:
            if step not in _NEEDLESS:
                steps.add_pass(_PieceLowering if step is NativeLowering else step, about)
        steps.finalize()
        return [steps]


class _Piece(CPUDispatcher):  # type: ignore[misc]
    """What other kernels call of one."""

    def add_overload(self, result: Any) -> None:
        """Only kernels come here, so the part of a dispatcher that Python calls is not told."""
        self.overloads[tuple(result.signature.args)] = result


class _EntryCompiler(_FunctionCompiler):  # type: ignore[misc]
    """The way into a piece from Python."""

    kernel: Kernel

    def _compile_core(self, args: Any, return_type: Any) -> Any:
        piece = self.kernel.piece
        piece.compile(tuple(args))
        made = piece.overloads[tuple(args)]
        context, about = made.target_context, made.fndesc
        library = _Library(context.codegen(), about.qualname)
        library.enable_object_caching()
        with context.push_code_library(library):
            library.add_linking_library(made.library)
            context.subtarget(environment=made.environment, fndesc=about).create_cpython_wrapper(
                library, about, made.environment, made.call_helper, release_gil=self.targetoptions["nogil"]
            )
        entry = context.get_executable(library, about, made.environment)
        context.insert_user_function(entry, about, [library])
        return made._replace(entry_point=entry, library=library, type_annotation="", metadata={})


class _Kept(FunctionCache):  # type: ignore[misc]
    """Entries on disk.  What cannot be read is made again, and what cannot be written is made by the next process, too."""

    def __init__(self, function: Callable[..., Any], stamp: object) -> None:
        super().__init__(function)
        if stamp is not None:
            self._cache_file._source_stamp = stamp

    def load_overload(self, signature: Any, context: Any) -> Any:
        """Called by Numba."""
        try:
            return super().load_overload(signature, context)
        except Exception:  # whatever bytes that are not ours make of it
            with suppress(OSError):
                self.flush()
            return None

    def save_overload(self, signature: Any, made: Any) -> None:
        """Called by Numba."""
        with suppress(OSError):
            super().save_overload(signature, made)


class Kernel(CPUDispatcher):  # type: ignore[misc]
    """A function for Python, which is kept on disk, and for other kernels, as a piece.

    Whatever kinds of integers and constants other kernels hand over, there is one piece: what is annotated as `int` has 64
    bits, and what is annotated as `Bytes` is only read.

    Attributes:
        stamp: what tells kept code from that of other sources; Numba's own if None.
    """

    stamp: object = None

    def __init__(self, function: Callable[..., Any], targetoptions: dict[str, Any]) -> None:
        super().__init__(function, targetoptions=targetoptions)
        self._compiler = _EntryCompiler(function, self.targetdescr, targetoptions, {}, _PieceCompiler)
        self._compiler.kernel = self
        self._annotations = tuple(function.__annotations__.values())

    @cached_property
    def piece(self) -> Any:
        """What other kernels call, compiled when they are."""
        options = {**self.targetoptions, "no_cpython_wrapper": True}
        return _Piece(self.py_func, targetoptions=options, pipeline_class=_PieceCompiler)

    def compile(self, signature: Any) -> Any:
        """For a call from Python: look on disk first."""
        if isinstance(self._cache, NullCache):  # type: ignore[has-type]
            self._cache = _Kept(self.py_func, self.stamp)
        return super().compile(signature)

    def get_call_template(self, args: Iterable[Any], kws: Any) -> Any:
        """For a call from a kernel, by Numba."""
        plain = [_plain(kind, annotation) for kind, annotation in zip(args, self._annotations, strict=False)]
        return self.piece.get_call_template(plain, kws)

    def get_overload(self, signature: Any) -> Any:
        """For a call from a kernel, by Numba."""
        return self.piece.get_overload(signature)

    def __reduce__(self) -> str:
        return str(self.__qualname__)


def _plain(kind: Any, annotation: str) -> Any:
    """The type that a kernel takes where one of the type `kind` is given."""
    kind = types.unliteral(kind)  # type: ignore[attr-defined]
    if annotation == "int" and isinstance(kind, (types.Integer, types.Boolean)):
        return types.int64
    if annotation == "Bytes" and isinstance(kind, types.Array):
        return kind.copy(readonly=True)
    return kind
