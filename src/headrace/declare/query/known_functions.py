"""Names that Spark has a function for. What is known but not maintained is refused; what is unknown is a typing
mistake.
"""

from __future__ import annotations

from sqlglot.parsers.spark import SparkParser

MAINTAINED_AGGREGATES = frozenset(
    """any any_value approx_count_distinct approx_percentile array_agg avg bit_and bit_or bit_xor bool_and bool_or
    collect_list collect_set corr count count_if covar_pop covar_samp every first first_value group_concat kurtosis last
    last_value listagg max max_by mean median min min_by mode percentile percentile_approx percentile_cont
    percentile_disc skewness some std stddev stddev_pop stddev_samp string_agg sum var_pop var_samp variance""".split()
)

AGGREGATES = MAINTAINED_AGGREGATES | frozenset(
    """approx_top_k bitmap_and_agg bitmap_construct_agg bitmap_or_agg collect_union count_min_sketch grouping
    grouping_id histogram_numeric hll_sketch_agg hll_union_agg measure regr_avgx regr_avgy regr_count regr_intercept
    regr_r2 regr_slope regr_sxx regr_sxy regr_syy try_avg try_sum""".split()
)

RANKINGS = frozenset(("row_number", "rank", "dense_rank"))
WINDOW_FUNCTIONS = RANKINGS | frozenset(("cume_dist", "lag", "lead", "nth_value", "ntile", "percent_rank"))

NONDETERMINISTIC = frozenset(
    """current_catalog current_database current_path current_schema current_time current_timezone current_user
    input_file_block_length input_file_block_start input_file_name localtime localtimestamp monotonically_increasing_id
    rand
    randn random randstr session_user shuffle spark_partition_id uniform user uuid version""".split()
)

TABLE_FUNCTIONS = frozenset(
    """explode explode_outer flatten_outer inline inline_outer json_tuple posexplode posexplode_outer range stack
    variant_explode variant_explode_outer""".split()
)

_ONLY_SPARK = frozenset(
    """aes_decrypt aes_encrypt array_repeat array_union arrays_overlap assert_true between bin bround cardinality conv
    counter_diff crc32 expm1 find_in_set forall format_number from_avro from_csv from_protobuf from_xml get hash
    hll_sketch_estimate hll_union hmac hypot is_valid_utf8 is_valid_variant is_variant_null jaro_winkler_similarity
    java_method json_array_length log1p luhn_check make_dt_interval make_time make_timestamp_ltz make_timestamp_ntz
    make_valid_utf8 make_ym_interval map_concat map_entries map_filter map_values map_zip_with mask nullifzero
    octet_length positive printf quote raise_error reflect schema_of_avro schema_of_csv schema_of_json schema_of_variant
    schema_of_xml sentences session_window shiftrightunsigned time_bucket timestamp_micros timestamp_millis
    timestamp_seconds to_avro to_csv to_protobuf to_time to_timestamp_ltz to_timestamp_ntz to_varchar to_variant_object
    to_xml transform_keys transform_values trunc try_aes_decrypt try_make_interval try_make_timestamp try_mod
    try_parse_json try_parse_url try_reflect try_to_binary try_to_date try_to_number try_to_time try_to_timestamp
    try_url_decode try_variant_get url_decode url_encode validate_utf8 variant_get weekday when window window_time xpath
    xpath_boolean xpath_double xpath_float xpath_int xpath_long xpath_number xpath_short xpath_string xxhash64
    zeroifnull
    zip_with""".split()
)

KNOWN = (
    _ONLY_SPARK
    | AGGREGATES
    | WINDOW_FUNCTIONS
    | NONDETERMINISTIC
    | TABLE_FUNCTIONS
    | frozenset(name.lower() for name in (*SparkParser.FUNCTIONS, *SparkParser.FUNCTION_PARSERS))
)
