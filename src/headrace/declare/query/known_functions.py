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
    grouping_id histogram_numeric hll_sketch_agg hll_union_agg kll_merge_agg_bigint kll_merge_agg_double
    kll_merge_agg_float kll_sketch_agg_bigint kll_sketch_agg_double kll_sketch_agg_float measure regr_avgx
    regr_avgy regr_count regr_intercept regr_r2 regr_slope regr_sxx regr_sxy regr_syy schema_of_variant_agg
    theta_intersection_agg theta_sketch_agg theta_union_agg try_avg try_sum tuple_intersection_agg_double
    tuple_intersection_agg_integer tuple_sketch_agg_double tuple_sketch_agg_integer tuple_union_agg_double
    tuple_union_agg_integer vector_avg vector_sum""".split()
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
    """collations explode explode_outer flatten_outer inline inline_outer json_tuple posexplode posexplode_outer
    python_worker_logs range sql_keywords stack variant_explode variant_explode_outer""".split()
)

_ONLY_SPARK = frozenset(
    """aes_decrypt aes_encrypt array_repeat array_union arrays_overlap assert_true between bigint bin binary bround
    btrim cardinality conv counter_diff crc32 date_part datepart decimal e expm1 find_in_set forall format_number
    from_avro from_csv from_protobuf from_xml get hash hll_sketch_estimate hll_union hmac hypot in is_valid_utf8
    is_valid_variant is_variant_null isnotnull isnull jaro_winkler_similarity java_method json_array_length
    kll_sketch_get_n_bigint kll_sketch_get_n_double kll_sketch_get_n_float kll_sketch_get_quantile_bigint
    kll_sketch_get_quantile_double kll_sketch_get_quantile_float kll_sketch_get_rank_bigint
    kll_sketch_get_rank_double kll_sketch_get_rank_float kll_sketch_merge_bigint kll_sketch_merge_double
    kll_sketch_merge_float kll_sketch_to_string_bigint kll_sketch_to_string_double kll_sketch_to_string_float
    log1p luhn_check make_date make_dt_interval make_time make_timestamp_ltz make_timestamp_ntz make_valid_utf8
    make_ym_interval map_concat map_entries map_filter map_values map_zip_with mask not now nullifzero
    octet_length pmod positive printf quote raise_error reflect regexp schema_of_avro schema_of_csv schema_of_json
    schema_of_variant schema_of_xml sentences session_window shiftrightunsigned smallint st_asbinary
    st_geogfromwkb st_geomfromwkb st_setsrid st_srid theta_difference theta_intersection theta_sketch_estimate
    theta_union time_bucket time_from_micros time_from_millis time_from_seconds time_to_micros time_to_millis
    time_to_seconds timestamp_micros timestamp_millis timestamp_nanos timestamp_seconds tinyint to_avro to_csv
    to_protobuf to_time to_timestamp_ltz to_timestamp_ntz to_varchar to_variant_object to_xml transform_keys
    transform_values trunc try_aes_decrypt try_make_interval try_make_timestamp try_make_timestamp_ltz
    try_make_timestamp_ntz try_mod try_parse_json try_parse_url try_reflect try_to_binary try_to_date
    try_to_number try_to_time try_to_timestamp try_url_decode try_validate_utf8 try_variant_array_append
    try_variant_get try_variant_insert try_variant_set tuple_difference_double tuple_difference_integer
    tuple_difference_theta_double tuple_difference_theta_integer tuple_intersection_double
    tuple_intersection_integer tuple_intersection_theta_double tuple_intersection_theta_integer
    tuple_sketch_estimate_double tuple_sketch_estimate_integer tuple_sketch_summary_double
    tuple_sketch_summary_integer tuple_sketch_theta_double tuple_sketch_theta_integer tuple_union_double
    tuple_union_integer tuple_union_theta_double tuple_union_theta_integer unix_nanos url_decode url_encode
    validate_utf8 variant_array_append variant_delete variant_get variant_insert variant_set variant_strip_nulls
    vector_cosine_similarity vector_inner_product vector_l2_distance vector_norm vector_normalize weekday when
    window window_time xpath xpath_boolean xpath_double xpath_float xpath_int xpath_long xpath_number xpath_short
    xpath_string xxhash64 zeroifnull zip_with""".split()
)

KNOWN = (
    _ONLY_SPARK
    | AGGREGATES
    | WINDOW_FUNCTIONS
    | NONDETERMINISTIC
    | TABLE_FUNCTIONS
    | frozenset(name.lower() for name in (*SparkParser.FUNCTIONS, *SparkParser.FUNCTION_PARSERS))
)
