"""Where entries of arrays are, for loops that ask the processor for them early."""

from __future__ import annotations

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic


def address_of(context, builder, array_type, array, row, column):
    """Pointer to ``array[row, column]``, in bytes; the array's rows are contiguous."""
    view = context.make_array(array_type)(context, builder, array)
    stride = cgutils.unpack_tuple(builder, view.strides)[0]
    start = builder.bitcast(view.data, ir.IntType(8).as_pointer())
    size = ir.Constant(stride.type, array_type.dtype.bitwidth // 8)
    return builder.gep(start, [builder.add(builder.mul(row, stride), builder.mul(column, size))])


@intrinsic
def prefetch(typing_context, array, row):
    """Ask the processor for ``array[row]``, a few steps before it is needed."""

    def generate(context, builder, signature, arguments):
        address = address_of(context, builder, array, *arguments, ir.Constant(arguments[1].type, 0))
        int32 = ir.IntType(32)
        function_type = ir.FunctionType(ir.VoidType(), [address.type, int32, int32, int32])
        function = cgutils.get_or_insert_function(builder.module, function_type, "llvm.prefetch.p0")
        read, keep, data = (ir.Constant(int32, value) for value in (0, 3, 1))
        builder.call(function, [address, read, keep, data])
        return context.get_dummy_value()

    return types.void(array, types.intp), generate
