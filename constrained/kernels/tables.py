"""Layout of the tables that the kernels share: column numbers, action codes, status codes.

States     int32[n, 6]   one row a state, `S_*` columns
Class maps uint8[m * 256] byte → class, class 0 is dead
Actions    int64[k]      a state's block starts at S_ACTIONS: the action at the end of the text, then one per class
Cells      int32[n, 4]   the stack as cons cells of one matcher, `C_*` columns; cell 0 is the bottom
Memo       int64[2^k, 2] open-addressing hash table: key, value; holds pops (wait state × outcome → state) and rows
                         (chain node × return state → row or next chain node)
Trie       int32[n, 4]   preorder, `T_*` columns
Nodes      int32[n, 8]   the trie again with siblings side by side, `N_*` columns; node 0 is the root
"""

from __future__ import annotations

S_ACTIONS, S_MAP, S_ROW, S_LOCAL, S_BASE, S_SLACK = range(6)
STATE_COLUMNS = 6
UNEXPANDED = -1

OPEN_HERE, OPEN_AHEAD = -2, -1
"""Values of S_SLACK for states that stand for several: a text that has just ended will tell which (an item of an array of
distinct items, an undeclared key).  Commits stop at both, to put the right state in place.  Walks pass OPEN_HERE and set
the tokens apart that reach OPEN_AHEAD: for them the text does make a difference."""

PASSING = -3
"""Value of S_SLACK for states that do the same thing before every byte and at the end of the text: they enter or leave a
frame.  Commits do it at once, so that rows are those of the states behind."""

C_RETURN, C_NEXT, C_DEPTH, C_MARK = range(4)
CELL_COLUMNS = 4
"""Return state (or -1 - wait state), the cell below, how many cells are below, where in the text the frame began."""

T_BYTE_DEPTH, T_END, T_TOKENS, T_HEIGHT = range(4)
TRIE_COLUMNS = 4

N_BYTE, N_KIDS, N_KIDS_END, N_TOKENS, N_TOKENS_OWN, N_TOKENS_ALL, N_ORDER, N_SPAN = range(8)
NODE_COLUMNS = 8
"""The byte on the edge into the node, with what bytes from 128 on are below it from bit 8 on (`NONE_WIDE` and so on), and
from CHARACTERS_SHIFT on how many characters begin on the way to it; its children; where its tokens start, its own end, and
all of its subtree's end; its number in preorder; its depth from bit 16 on, and below that the length of the longest path
from it."""
CHARACTERS_SHIFT = 16
NONE_WIDE, VALID_WIDE, OTHER_WIDE, SPACELESS_WIDE = range(4)
"""Below a node: no byte from 128 on; some, and after a whole character all that is there is UTF-8; others; UTF-8 without
WIDE_SPACES."""
WIDE_SPACES = (
    (0x85, 0x85), (0xA0, 0xA0), (0x1680, 0x1680), (0x2000, 0x200A), (0x2028, 0x2029), (0x202F, 0x202F), (0x205F, 0x205F),
    (0x3000, 0x3000), (0xFEFF, 0xFEFF),
)  # fmt: skip
"""The characters outside ASCII that `\\s` stands for, or that `.` does not, in some dialect of regular expressions."""

END_OF_TEXT = 256
"""The symbol after the last byte, dispatched like a byte."""

KIND_SHIFT = 60
DEAD, GOTO, PUSH, POP_AFTER, POP_BEFORE, ACCEPT, PUSH_AFTER = range(7)
"""Kinds of actions.  PUSH and POP_BEFORE do not consume the byte: it is dispatched again in the new state."""
RETURN_SHIFT = 29
WAITS_BIT = 58
OPERAND_MASK = (1 << 29) - 1

(
    OK, REJECTED, UNKNOWN_STATE, UNKNOWN_POP, EXIT, CELLS_FULL, ACCEPTED, HISTORY_FULL, UNKNOWN_COST, OPEN, NO_ROOM,
    TOO_DEEP, ASK_KEPT, OPEN_LOCAL, DEAR_LOCAL, OPEN_ROW, MEMO_FULL, NEED_LOCAL, UNKNOWN_MEMBER, TABLES_FULL,
) = range(20)  # fmt: skip
"""Status codes of kernels."""

OUTCOME_BITS = 24
POP_KEY = 1 << 62
WITHIN_KEY, WITHIN_SHIFT = 3 << 61, 31
"""Keys of the memo for local rows of a large exit: the state that the frame is left to, and the number of the exit."""
CHAIN_FLAG = 1 << 40
"""A memo value with this flag names a chain node, not a row."""

(
    L_DENSE, L_IDS, L_IDS_END, L_EXITS, L_EXITS_END, L_OPEN, L_WALKED, L_PREPARED, L_JOINED, L_JOINED_END, L_LARGE, L_LARGE_END,
) = range(12)  # fmt: skip
LOCAL_COLUMNS = 12
"""A local row: its base, or -1, and a list of tokens in the pool; its exits; 1 if there are more tokens, which the text has to
tell; how many nodes the walks of the exits came to, in all.  L_PREPARED: 1 if the exits are there a second time in two parts, those
joined (`kernels.joining`) and large ones (`kernels.leaving`); -1 if they cannot be."""
R_DENSE, R_IDS, R_IDS_END, R_MORE, R_MORE_END, R_OPEN, R_NUMBER = range(7)
ROW_COLUMNS = 7
"""A row: its base, or -1; two lists of tokens in the pool; 1 if there are more tokens, which the text has to tell; its number."""

OPEN_BIT = 1 << 30
"""Flag of an exit's outcome: the way there depends on text."""
E_NODE, E_STATE, E_OUTCOME = range(3)
"""An exit: trie node, the state there (POP_BEFORE of some children) or -1, the outcome (POP_AFTER) or -1."""
JOINED_AFTER, JOINED_BEFORE, BEFORE_STATE = -1, -2, -3
"""E_STATE of exits that have been prepared: the frame is left with the outcome after the byte before the node, or before the
bytes behind it: joined, before those of all children; large, BEFORE_STATE - state: before those of which the state says so."""
I_LOCAL, I_CELL = range(2)
ITEMS = 16
"""The local rows that make up a row, int64[ITEMS, 2]: each with the cell below its frame."""


def goto(state: int) -> int:
    """The action: consume the byte, be in `state`."""
    return (GOTO << KIND_SHIFT) | state


def push(child: int, then: int, *, waits: bool = False) -> int:
    """The action: push the return state `then`, dispatch the byte in `child`; `waits` if the outcome selects what follows."""
    return (PUSH << KIND_SHIFT) | (int(waits) << WAITS_BIT) | (then << RETURN_SHIFT) | child


def push_after(child: int, then: int, *, waits: bool = False) -> int:
    """The action: consume the byte, push the return state `then`, be in `child`."""
    return (PUSH_AFTER << KIND_SHIFT) | (int(waits) << WAITS_BIT) | (then << RETURN_SHIFT) | child


def pop_after(outcome: int) -> int:
    """The action: consume the byte, leave the frame with `outcome`."""
    return (POP_AFTER << KIND_SHIFT) | outcome


def pop_before(outcome: int) -> int:
    """The action: leave the frame with `outcome`, dispatch the byte in the state returned to."""
    return (POP_BEFORE << KIND_SHIFT) | outcome


ACCEPT_ACTION = ACCEPT << KIND_SHIFT
