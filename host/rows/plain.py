"""Types and columns without dictionaries, runs and views, also in lists, structs and maps."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

#: Types that hold the values of views.
_OF_VIEWS = {pa.string_view(): pa.string(), pa.binary_view(): pa.binary()}


def _unviewed(dtype: pa.DataType) -> pa.DataType:
    return _OF_VIEWS.get(dtype, dtype)


def plain_type(
    dtype: pa.DataType, leaf: Callable[[pa.DataType], pa.DataType] = _unviewed
) -> pa.DataType:
    """Return a type without dictionaries and runs; ``leaf`` maps types without fields."""

    def plain(field: pa.Field) -> pa.Field:
        return field.with_type(plain_type(field.type, leaf))

    if pa.types.is_dictionary(dtype) or pa.types.is_run_end_encoded(dtype):
        return plain_type(dtype.value_type, leaf)
    if not pa.types.is_nested(dtype):
        return leaf(dtype)
    if pa.types.is_struct(dtype):
        return pa.struct([plain(field) for field in dtype])
    if pa.types.is_map(dtype):
        return pa.map_(plain(dtype.key_field), plain(dtype.item_field), dtype.keys_sorted)
    if pa.types.is_list(dtype) or pa.types.is_list_view(dtype):
        return pa.list_(plain(dtype.value_field))
    if pa.types.is_large_list(dtype) or pa.types.is_large_list_view(dtype):
        return pa.large_list(plain(dtype.value_field))
    if pa.types.is_fixed_size_list(dtype):
        return pa.list_(plain(dtype.value_field), dtype.list_size)
    return dtype


def received_type(dtype: pa.DataType) -> pa.DataType:
    """Return a type without runs and views, and without dictionaries inside nested types."""
    if pa.types.is_dictionary(dtype):
        return pa.dictionary(dtype.index_type, plain_type(dtype.value_type), dtype.ordered)
    return plain_type(dtype)


def relaid(array: pa.Array, dtype: pa.DataType) -> pa.Array:
    """Return an array in its :func:`received_type`."""
    if not isinstance(array, pa.DictionaryArray):
        return decoded(array).cast(dtype)
    words = decoded(array.dictionary).cast(dtype.value_type)
    return pa.DictionaryArray.from_arrays(array.indices, words, ordered=dtype.ordered)


def decoded(array: pa.Array) -> pa.Array:
    """Return an array without a dictionary, runs, list views or an extension at its top."""
    if pa.types.is_run_end_encoded(array.type):
        return decoded(pc.call_function("run_end_decode", [array]))
    if isinstance(array, pa.DictionaryArray):
        return relaid(array, received_type(array.type)).dictionary_decode()
    if pa.types.is_list_view(array.type) or pa.types.is_large_list_view(array.type):
        lengths = pc.call_function("list_value_length", [array]).fill_null(0)
        offsets = np.append(0, np.cumsum(lengths))
        return pa.LargeListArray.from_arrays(offsets, array.flatten(), mask=array.is_null())
    return array.storage if isinstance(array, pa.ExtensionArray) else array


def plain_array(array: pa.Array, dtype: pa.DataType) -> pa.Array:
    """Return an array as one of its plain type, ``dtype``."""
    # Most are as they should be; Arrow copies what it casts, and spoils slices of lists of NULL.
    return array if array.type == dtype else decoded(array).cast(dtype)
