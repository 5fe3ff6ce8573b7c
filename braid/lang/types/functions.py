"""Spark SQL's functions: which may be used, what they take and what they return.

One line per signature: `names : arguments -> result`. An argument is a type, or one of

- `number` (any numeric type), `time` (a timestamp or date), `collection` (an array or map), `any`, `unit` (a
  bare word such as MINUTE);
- `T`, `K`, `V`: the same type wherever the letter stands, also inside `array<T>` and `map<K,V>`;
- `lambda`;

followed by `?` if it may be left out, `*` if it may come any number of times, `+` for at least once. A result
of `?` is a type that depends on values; such a result needs a CAST before it can leave a view.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache

_SIGNATURES = """
abs negative positive : number:T -> T
acos acosh asin asinh atan atanh cbrt cos cosh cot csc degrees : double -> double
exp expm1 ln log10 log1p log2 radians rint sec sign signum sin sinh sqrt tan tanh : double -> double
atan2 hypot pow power nanvl : double double -> double
log : double double? -> double
e pi : -> double
interpolate : number -> double
previous next : T -> T
ceil ceiling floor : number:R int? -> R
round bround : number:T int? -> T
bin : bigint -> string
conv : string int int -> string
hex : any -> string
unhex : string -> binary
factorial : int -> bigint
width_bucket : number number number bigint -> bigint
div : number number -> bigint
mod pmod try_mod try_add try_subtract try_multiply : number:T number:T -> T
try_divide : number number -> double
greatest least : T T+ -> T
bit_count : bigint -> int
bit_get getbit : bigint int -> tinyint
shiftleft shiftright shiftrightunsigned : number:T int -> T
crc32 : any -> bigint
hash : any+ -> int
xxhash64 : any+ -> bigint
md5 sha sha1 : any -> string
sha2 : any int -> string
hmac : any any string? -> binary

ascii char_length character_length len length octet_length bit_length : string -> int
base64 : any -> string
unbase64 from_base32 : string -> binary
to_base32 : any -> string
lower lcase upper ucase initcap soundex quote collation : string -> string
make_valid_utf8 validate_utf8 try_validate_utf8 : string -> string
is_valid_utf8 luhn_check : string -> boolean
char chr : bigint -> string
concat_ws : string any* -> string
contains startswith endswith : string string -> boolean
like ilike rlike regexp regexp_like : string string -> boolean
decode : any any+ -> string
encode : string string -> binary
elt : int any+ -> string
find_in_set regexp_count : string string -> int
instr levenshtein : string string int? -> int
jaro_winkler_similarity : string string -> double
format_number : number any -> string
format_string printf : string any* -> string
left right : string int -> string
locate position : string string int? -> int
lpad rpad : string int string? -> string
btrim ltrim rtrim trim : string string? -> string
mask : string string? string? string? string? -> string
overlay : string string int int? -> string
regexp_extract : string string int? -> string
regexp_substr : string string -> string
regexp_extract_all : string string int? -> array<string>
regexp_instr : string string int? -> int
regexp_replace : string string string int? -> string
repeat : string int -> string
replace : string string string? -> string
translate : string string string -> string
substring_index split_part : string string int -> string
sentences : string string? string? -> array<array<string>>
space : int -> string
split : string string int? -> array<string>
substr substring : string int int? -> string
to_binary try_to_binary : string string? -> binary
to_char to_varchar : any string -> string
to_number try_to_number : string string -> ?
collate : string string -> string
parse_url try_parse_url : string string string? -> string
url_decode url_encode try_url_decode : string -> string

coalesce : T+ -> T
ifnull nvl nullif : T T -> T
nvl2 : any T T -> T
nullifzero zeroifnull : number:T -> T
isnan : double -> boolean
isnotnull isnull : any -> boolean
equal_null : T T -> boolean
typeof : any -> string

add_months : date int -> date
date_add date_sub dateadd : time int -> date
dateadd date_add timestampadd : unit int time:T -> timestamp
date_diff datediff : time time -> int
date_diff datediff timestampdiff : unit time time -> bigint
date_format : time string -> string
date_from_unix_date : int -> date
date_part datepart : string time -> ?
date_trunc : string time -> timestamp
trunc : time string -> date
day dayofmonth dayofweek dayofyear hour minute month quarter second weekday weekofyear year : time -> int
dayname monthname : time -> string
last_day : time -> date
next_day : time string -> date
months_between : time time boolean? -> double
from_unixtime : bigint string? -> string
from_utc_timestamp to_utc_timestamp : time string -> timestamp
convert_timezone : string string timestamp_ntz? -> timestamp_ntz
make_date : int int int -> date
make_timestamp make_timestamp_ltz : int int int int int number string? -> timestamp
try_make_timestamp try_make_timestamp_ltz : int int int int int number string? -> timestamp
make_timestamp_ntz try_make_timestamp_ntz : int int int int int number -> timestamp_ntz
make_dt_interval : int? int? int? number? -> interval day to second
make_ym_interval : int? int? -> interval year to month
timestamp_seconds : number -> timestamp
timestamp_millis timestamp_micros : bigint -> timestamp
to_date try_to_date : any string? -> date
to_timestamp to_timestamp_ltz try_to_timestamp : any string? -> timestamp
to_timestamp_ntz : any string? -> timestamp_ntz
to_unix_timestamp unix_timestamp : any string? -> bigint
unix_date : date -> int
unix_micros unix_millis unix_seconds : timestamp -> bigint
make_time time_diff time_from_micros time_from_millis time_from_seconds time_to_micros time : any+ -> ?
time_to_millis time_to_seconds time_trunc timestamp_nanos to_time try_to_time unix_nanos : any+ -> ?
make_interval try_make_interval : any* -> ?
time_bucket : interval time time? -> timestamp

array : T* -> array<T>
array_append array_prepend array_remove : array<T> T -> array<T>
array_compact array_distinct : array<T> -> array<T>
array_contains : array<T> T -> boolean
array_except array_intersect array_union : array<T> array<T> -> array<T>
array_insert : array<T> int T -> array<T>
array_join : array<any> string string? -> string
array_max array_min : array<T> -> T
array_position : array<T> T -> bigint
array_repeat : T int -> array<T>
array_size : array<any> -> int
arrays_overlap : array<T> array<T> -> boolean
arrays_zip : any+ -> ?
array_sort : array<T> lambda? -> array<T>
sort_array : array<T> boolean? -> array<T>
flatten : array<array<T>> -> array<T>
get : array<T> int -> T
sequence : T T any? -> array<T>
slice : array<T> int int -> array<T>
cardinality size : collection -> int
concat : any* -> string
element_at try_element_at : array<T> int -> T
element_at try_element_at : map<K,V> K -> V
reverse : T -> T
map : any* -> ?
map_concat : map<K,V>+ -> map<K,V>
map_contains_key : map<K,V> K -> boolean
map_entries map_from_entries struct named_struct : any* -> ?
map_from_arrays : array<K> array<V> -> map<K,V>
map_keys : map<K,V> -> array<K>
map_values : map<K,V> -> array<V>
str_to_map : string string? string? -> map<string,string>
exists forall : array<any> lambda -> boolean
filter : array<T> lambda -> array<T>
map_filter : map<K,V> lambda -> map<K,V>
aggregate reduce : array<any> T lambda lambda? -> T
transform transform_keys transform_values : any lambda -> ?
zip_with map_zip_with : any any lambda -> ?
vector_avg vector_sum vector_normalize : any any? -> array<float>
vector_cosine_similarity vector_inner_product vector_l2_distance : any any -> float
vector_norm : any any? -> float

get_json_object : string string -> string
json_array_length : string -> int
json_object_keys : string -> array<string>
from_json from_csv from_xml from_avro : any any+ -> ?
schema_of_json schema_of_csv schema_of_xml schema_of_avro to_json to_csv to_xml : any any* -> string
to_avro : any any? -> binary
parse_json try_parse_json : string -> variant
is_variant_null is_valid_variant : any -> boolean
schema_of_variant : any -> string
to_variant_object variant_strip_nulls : any -> variant
variant_get try_variant_get : any string string? -> ?
variant_delete : any any+ -> variant
variant_set variant_insert variant_array_append : any any any any? -> variant
try_variant_set try_variant_insert try_variant_array_append : any any any any? -> variant
xpath : string string -> array<string>
xpath_boolean : string string -> boolean
xpath_double xpath_number : string string -> double
xpath_float : string string -> float
xpath_int : string string -> int
xpath_long : string string -> bigint
xpath_short : string string -> smallint
xpath_string : string string -> string
aes_decrypt try_aes_decrypt : any any string? string? any? -> binary
hll_sketch_estimate : binary -> bigint
hll_union : binary binary boolean? -> binary
approx_top_k_estimate theta_difference theta_intersection theta_sketch_estimate theta_union : any+ -> ?
kll_sketch_get_n_bigint kll_sketch_get_n_double kll_sketch_get_n_float : binary -> bigint
kll_sketch_get_quantile_bigint kll_sketch_get_quantile_double kll_sketch_get_quantile_float : any+ -> ?
kll_sketch_get_rank_bigint kll_sketch_get_rank_double kll_sketch_get_rank_float : any+ -> ?
kll_sketch_merge_bigint kll_sketch_merge_double kll_sketch_merge_float : binary binary -> binary
kll_sketch_to_string_bigint kll_sketch_to_string_double kll_sketch_to_string_float : binary -> string
tuple_difference_double tuple_difference_integer tuple_difference_theta_double : any+ -> ?
tuple_difference_theta_integer tuple_intersection_double tuple_intersection_integer : any+ -> ?
tuple_intersection_theta_double tuple_intersection_theta_integer tuple_sketch_estimate_double : any+ -> ?
tuple_sketch_estimate_integer tuple_sketch_summary_double tuple_sketch_summary_integer : any+ -> ?
tuple_sketch_theta_double tuple_sketch_theta_integer tuple_union_double tuple_union_integer : any+ -> ?
tuple_union_theta_double tuple_union_theta_integer : any+ -> ?
st_asbinary st_geogfromwkb st_geomfromwkb st_setsrid st_srid : any+ -> ?
bitmap_bit_position bitmap_bucket_number bitmap_count : any -> bigint

string : any -> string
boolean : any -> boolean
tinyint : any -> tinyint
smallint : any -> smallint
int : any -> int
bigint : any -> bigint
float : any -> float
double : any -> double
decimal : any -> decimal(10,0)
date : any -> date
timestamp : any -> timestamp
binary : any -> binary
"""

OUTSIDE = frozenset(
    """
    reflect java_method try_reflect input_file_name input_file_block_start input_file_block_length
    current_user user session_user current_role current_catalog current_database current_schema current_path
    current_timezone version collations sql_keywords python_worker_logs read_files from_protobuf to_protobuf
    raise_error assert_true ai_query http_request secret try_secret
    """.split()  # noqa: SIM905
)
"""Functions that reach outside the row: classes, files, the session, or the running of the query itself."""

REPLAY = frozenset(
    """
    rand randn random randstr uniform uuid shuffle now current_timestamp current_date curdate current_time
    current_datetime localtime localtimestamp monotonically_increasing_id spark_partition_id aes_encrypt
    """.split()  # noqa: SIM905
)
"""Functions that give another value when a micro-batch is run again after a crash."""

MANY_ROWS = frozenset(
    """
    any any_value approx_count_distinct approx_percentile approx_top_k approx_top_k_accumulate
    approx_top_k_combine array_agg avg bit_and bit_or bit_xor bitmap_and_agg
    bitmap_construct_agg bitmap_or_agg bool_and bool_or collect_list collect_set collect_union corr count
    count_if count_min_sketch covar_pop covar_samp every first first_value grouping grouping_id
    histogram_numeric hll_sketch_agg hll_union_agg kurtosis last last_value listagg max max_by mean measure
    median min min_by mode percentile percentile_approx percentile_cont percentile_disc regr_avgx regr_avgy
    regr_count regr_intercept regr_r2 regr_slope regr_sxx regr_sxy regr_syy skewness some std stddev
    stddev_pop stddev_samp string_agg sum try_avg try_sum var_pop var_samp variance schema_of_variant_agg
    cume_dist dense_rank lag lead nth_value ntile percent_rank rank row_number counter_diff
    explode explode_outer inline inline_outer posexplode posexplode_outer stack json_tuple variant_explode
    variant_explode_outer window window_time session_window range
    kll_merge_agg_bigint kll_merge_agg_double kll_merge_agg_float kll_sketch_agg_bigint
    kll_sketch_agg_double kll_sketch_agg_float theta_intersection_agg theta_sketch_agg theta_union_agg
    tuple_intersection_agg_double tuple_intersection_agg_integer tuple_sketch_agg_double
    tuple_sketch_agg_integer tuple_union_agg_double tuple_union_agg_integer
    """.split()  # noqa: SIM905
)
"""Functions over many rows, or that make many rows of one."""


NEIGHBOURS = frozenset(("interpolate", "previous", "next"))
"""PQL's own functions, over the neighbours in time of an ASOF join's row."""


@dataclass(frozen=True)
class Parameter:
    """One argument: a type pattern, and how often it may come."""

    pattern: str
    least: int = 1
    repeats: bool = False


@dataclass(frozen=True)
class Signature:
    """What one form of a function takes and returns."""

    parameters: tuple[Parameter, ...]
    result: str

    def accepts(self, count: int) -> bool:
        """Whether a call may have so many arguments."""
        least = sum(p.least for p in self.parameters)
        return count >= least and (count <= len(self.parameters) or any(p.repeats for p in self.parameters))

    def patterns(self, count: int) -> list[str]:
        """The pattern of each of `count` arguments."""
        fixed = [p.pattern for p in self.parameters]
        return [*fixed, *[fixed[-1]] * (count - len(fixed))][:count] if fixed else []

    def counts(self) -> str:
        """The accepted number of arguments, in words."""
        least, most = sum(p.least for p in self.parameters), len(self.parameters)
        if any(p.repeats for p in self.parameters):
            return f"at least {least}" if least else "any number of"
        return str(most) if least == most else f"{least} to {most}"


@cache
def signatures() -> dict[str, tuple[Signature, ...]]:
    """All usable functions by lower-case name."""
    found: dict[str, tuple[Signature, ...]] = {}
    for line in filter(None, _SIGNATURES.splitlines()):
        names, _, rest = line.partition(" : ")
        arguments, _, result = rest.partition("-> ")
        signature = Signature(tuple(map(_parameter, arguments.split())), result.strip())
        for name in names.split():
            found[name] = (*found.get(name, ()), signature)
    return found


def _parameter(text: str) -> Parameter:
    match = re.fullmatch(r"(.*?)([?*+]?)", text)
    assert match is not None
    pattern, suffix = match.groups()
    return (
        Parameter(pattern, 0 if suffix in ("?", "*") else 1, suffix in ("*", "+"))
        if suffix
        else Parameter(pattern)
    )
