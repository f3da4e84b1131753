"""Generation of C from a :class:`~.subgraph.Subgraph`, without any dependence on Relay or Relax.

:func:`generate` writes one self-contained C function::

    static const char* <symbol>_run(void* const* args)

``args`` holds the data pointers of the inputs, followed by those of the outputs, and by pointers to
the open extents (of the type int64_t). The function
returns NULL or an error message. Each front end adds the entry point by which TVM's runtime calls
it.
"""

from __future__ import annotations

from typing import Dict, List

import numpy as np

from .c_text import C_TYPES, literal
from .kernels import emit
from .subgraph import Buffer, Subgraph

# <math.h> and <stdlib.h> are not included: g++, TVM's default compiler even for C, replaces them by
# C++'s own headers. <cmath> takes several times longer to compile than all the rest of the source,
# and <cstdlib> is slow too.
PRELUDE = """\
#include <stdint.h>
#include <string.h>
#ifdef __cplusplus
extern "C" {
#endif
void* malloc(size_t);
void free(void*);
float expf(float);
float tanhf(float);
float sqrtf(float);
float fabsf(float);
double exp(double);
double tanh(double);
double sqrt(double);
double fabs(double);
#ifdef __cplusplus
}
#endif
"""

_ALIGNMENT = 64


def generate(graph: Subgraph) -> str:
    """Returns the C definition of ``<symbol>_run`` and its constants, valid as C99 and as C++."""
    names: Dict[Buffer, str] = {}
    tables: List[str] = []
    body: List[str] = []

    for index, buffer in enumerate(graph.constants):
        # Constants are `static` and their names contain that of the subgraph, so that they never
        # collide, not even if all sources of a module are joined in one file.
        names[buffer] = f"{graph.symbol}_constant_{index}"
        tables.append(_table(names[buffer], buffer))

    count = len(graph.inputs) + len(graph.outputs)
    body += [f"const int64_t n{k} = *(const int64_t*)args[{count + k}];" for k in range(len(graph.extents))]
    for position, buffer in enumerate(graph.inputs):
        names[buffer] = f"in{position}"
        body.append(_pointer(buffer, names[buffer], f"args[{position}]", const=True))

    # A result that is an output is computed directly in its first output buffer. Every other
    # output is a copy: of an input, of a constant, or of an output written before.
    computed = {buffer for step in graph.steps for buffer in step.outputs}
    copies: List[str] = []
    for number, buffer in enumerate(graph.outputs):
        argument = f"args[{len(graph.inputs) + number}]"
        if buffer in computed and buffer not in names:
            names[buffer] = f"out{number}"
            body.append(_pointer(buffer, names[buffer], argument))
        else:
            size = f"{buffer.size} * sizeof({C_TYPES[buffer.dtype]})"
            copies.append(f"memcpy({argument}, {names[buffer]}, {size});")

    # All other results live in one block, which is allocated for this call only. This makes the
    # function re-entrant; and there is one failure to report and one pointer to free.
    workspace: List[str] = []
    needed = 0
    for step in graph.steps:
        for buffer in step.outputs:
            if buffer not in names:
                names[buffer] = f"tmp{len(workspace)}"
                workspace.append(_pointer(buffer, names[buffer], f"(workspace + {needed})"))
                used = buffer.size * np.dtype(buffer.dtype).itemsize
                needed += -(-used // _ALIGNMENT) * _ALIGNMENT
    if workspace:
        body.append(f"char* const workspace = (char*)malloc({needed});")
        body.append(f'if (workspace == NULL) return "{graph.symbol}: out of memory";')
        body.extend(workspace)

    for step in graph.steps:
        body.append(f"{{  /* {step.kernel} */")
        body.extend("  " + line for line in emit(step, names))
        body.append("}")
    body.extend(copies)
    if workspace:
        body.append("free(workspace);")
    body.append("return NULL;")

    head = f"static const char* {graph.symbol}_run(void* const* args) {{"
    return PRELUDE + "\n".join([*tables, head, *("  " + line for line in body), "}", ""])


def _pointer(buffer: Buffer, name: str, source: str, const: bool = False) -> str:
    ctype = C_TYPES[buffer.dtype]
    qualified = f"const {ctype}" if const else ctype
    # The cast to void prevents a warning if the value is never read.
    return f"{qualified}* const {name} = ({qualified}*){source}; (void){name};"


def _table(name: str, buffer: Buffer) -> str:
    assert buffer.data is not None
    values = [literal(value, buffer.dtype) for value in buffer.data.ravel().tolist()]
    rows = ",\n".join("  " + ", ".join(values[i : i + 8]) for i in range(0, len(values), 8))
    return f"static const {C_TYPES[buffer.dtype]} {name}[{len(values)}] = {{\n{rows}\n}};"
