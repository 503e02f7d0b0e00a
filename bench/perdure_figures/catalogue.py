"""The figures that can be measured again, and what of the paper cannot, with the reason."""

from __future__ import annotations

from perdure_figures import (
    cache,
    dash,
    dash_parts,
    dash_pools,
    gpm,
    hetero,
    hrocks,
    kv,
    prestores,
    real_world,
    tables,
    throughput,
)
from perdure_figures.model import Evaluation, Figure

_GPM = "GPM: Leveraging Persistent Memory from a GPU (ASPLOS '22)"

_MIXED = (
    "LOAD starts from a table for a 64th of the records and grows. A batch of YCSB A, B, D or F "
    "goes to every"
    " system as two calls, gets then writes, and on a GPU the ported baselines get at most "
    "65,536 operations"
    " of those a batch: they take what goes to a hot key one after the other. No system has a "
    "record cache"
    " here. Perdure checks a checksum on each get, and the baselines have none."
)
_CURVES = "throughput and latency of micro-benchmark and YCSB over batch sizes"
_CACHE = "in_place caches buckets, as the paper does; beside it, word mirrored caches whole records"

_PATHS = (
    "The medium is host memory (tmpfs) in place of Optane, so that flushes cost little, and the "
    "disk is an"
    " ordinary one. Of checkpointing applications the time of checkpoints is compared."
)

_DASH = "Dash: Scalable Hashing on Persistent Memory (VLDB '20)"
_ON_CPU = "Dash is an index of the CPU's cores"
_MEDIA = (
    "DRAM stands in for Optane: with real flushes, and timing emulated. "
    "Baselines are rebuilt from papers."
)
_dash = Evaluation(_DASH, _MEDIA, ("cpu",), _ON_CPU).figure

_ALL = (
    Figure(
        "gphash-5",
        "Throughput and latency, 8-byte keys",
        "4.2",
        _CURVES,
        throughput.plan(8),
        throughput.read,
        _MIXED,
    ),
    Figure(
        "gphash-6",
        "Throughput and latency, 32-byte keys",
        "4.2",
        _CURVES,
        throughput.plan(32),
        throughput.read,
        _MIXED,
    ),
    Figure(
        "gphash-7",
        "Load factors",
        "4.2",
        "load factor while a growing table is loaded",
        tables.plan_load_factors,
        tables.read_load_factors,
        "The first table is for a 64th of the records; the paper does not say with which it began."
        " CPU-assisted with Perdure's own index is left out, for that is word's. SEPH is "
        "simplified.",
    ),
    Figure(
        "gphash-8",
        "Latency breakdown",
        "4.3",
        "parts of a call with its arrays in GPU memory",
        throughput.plan_breakdown,
        throughput.read_breakdown,
        "The share of SlabHash-GPM's logging is left out: its log is not timed apart.",
        devices=("cuda",),
        why_device="it tells apart what moves between GPU and CPU, and kernels; a CPU has neither",
    ),
    Figure(
        "gphash-9",
        "Factor analysis",
        "4.4",
        "what in-place keys and the cache bring, YCSB",
        cache.plan_factors,
        cache.read_factors,
        "The baseline without warp cooperation is left out: there is no such variant of ours. Also,"
        f" {_CACHE}.",
    ),
    Figure(
        "gphash-10",
        "Real-world workloads",
        "4.5",
        "throughput and latency over batch sizes of recommender lookups and PageRank",
        real_world.plan,
        real_world.read,
        "The paper: Criteo-Kaggle clicks and the Twitter graph. Here: the first lookups of a "
        "production"
        " recommender, and New York's roads, whose nodes have much the same degree. Both tables "
        "are small,"
        " and --records does not change them.",
    ),
    Figure(
        "gphash-11",
        "Cache policies and sizes",
        "4.6",
        "throughput and hit rate by policy and cache size, YCSB A and C",
        cache.plan_policies,
        cache.read_policies,
        f"{_CACHE}. Hit rates of YCSB A are left out: counts tell them of gets alone.",
    ),
    Figure(
        "gphash-12",
        "Key size and skew",
        "4.6",
        "throughput by key size and by theta, YCSB C",
        cache.plan_sensitivity,
        cache.read_sensitivity,
        "The ported baselines have keys of 8 and 32 bytes.",
    ),
    Figure(
        "gphash-13",
        "Configurations",
        "4.6",
        "throughput against load factor by shape, YCSB C and LOAD",
        tables.plan_configurations,
        tables.read_configurations,
        "Load factors are those before the first forced growth of a table that may not grow.",
    ),
    Figure(
        "gphash-14",
        "Resizing and recovery",
        "4.7",
        "time to resize by size, and to come back after SIGKILL",
        tables.plan_overheads,
        tables.read_overheads,
        "A resize's time is its batch's, beyond the median of batches without one.",
    ),
    Figure(
        "gphash-15",
        "Loading the cache",
        "4.7",
        "gets beside loads of the cache, by its size",
        cache.plan_loading,
        cache.read_loading,
        "Loading without concurrent gets is left out: ours always lets them go on.",
    ),
    Figure(
        "gpm-1",
        "GPM over the CPU alone",
        "1",
        "applications on a GPU against the CPU's cores",
        gpm.plan_cpu,
        gpm.read_cpu,
        "The paper's CPU programs are others (pmemKV, RocksDB, MatrixKV, OpenMP); here the same "
        "sources run"
        " on all cores.",
        devices=("cuda",),
        why_device="it compares a GPU with the CPU",
        paper=_GPM,
    ),
    Figure(
        "gpm-3",
        "Scaling of persistence",
        "3.2",
        "persists of 8 bytes by more and more threads, of the GPU and of the CPU",
        gpm.plan_scaling,
        gpm.read_scaling,
        paper=_GPM,
    ),
    Figure(
        "gpm-9",
        "Paths to durability",
        "6.1",
        "applications with GPM, CAP-mm and CAP-fs (on tmpfs, and on a disk)",
        gpm.plan_paths,
        gpm.read_paths,
        f"{_PATHS} GPUfs is left out: it exists as binaries alone.",
        paper=_GPM,
    ),
    Figure(
        "gpm-10",
        "Persisting in kernels, and eADR",
        "6.1",
        "applications with GPM, without direct persistence, and as eADR would have it",
        gpm.plan_direct,
        gpm.read_direct,
        f"{_PATHS} GPM-eADR is GPM here, for there is no DDIO switch to spare.",
        paper=_GPM,
    ),
    Figure(
        "gpm-11a",
        "HCL in applications",
        "6.1",
        "transactional applications with HCL and with conventional logging",
        gpm.plan_logging,
        gpm.read_logging,
        "A conventional log has a partition for each block of 256 threads; the paper does not "
        "say how many"
        " share one.",
        paper=_GPM,
    ),
    Figure(
        "gpm-11b",
        "Scaling of HCL",
        "6.1",
        "the time of one log entry of each thread, and what appending reaches",
        gpm.plan_log_scaling,
        gpm.read_log_scaling,
        paper=_GPM,
    ),
    Figure(
        "gpm-12",
        "Write bandwidth",
        "6.1",
        "bytes that kernels store to durable memory, by time",
        gpm.plan_bandwidth,
        gpm.read_bandwidth,
        "Of checkpointing applications while they checkpoint.",
        paper=_GPM,
    ),
    Figure(
        "gpm-table-4",
        "Write amplification",
        "6.1",
        "bytes that CAP makes durable over those that GPM stores",
        gpm.plan_amplification,
        gpm.read_amplification,
        paper=_GPM,
    ),
    Figure(
        "gpm-table-5",
        "Restoration latency",
        "6.2",
        "the time of recovery, of the run's",
        gpm.plan_recovery,
        gpm.read_recovery,
        "Runs at large sizes have fewer iterations than table 1's; the shares are of runs of its "
        "length.",
        paper=_GPM,
    ),
    _dash(
        "dash-1",
        "CCEH and Level hashing",
        "1.1",
        "insert and search of the paper's baselines by threads",
        dash.plan_motivation,
        dash.read_motivation,
    ),
    _dash(
        "dash-7",
        "Single-thread performance",
        "6.3",
        "operations by one thread, keys of 8 bytes and of variable length; lines read an operation",
        dash.plan_single_thread,
        dash.read_single_thread,
        f"{_MEDIA} Variable-length keys are written by the insert, not beforehand.",
    ),
    _dash(
        "dash-8",
        "Scalability",
        "6.4",
        "operations and a mixture by threads",
        dash.plan_scalability,
        dash.read_scalability,
    ),
    _dash(
        "dash-9",
        "Fingerprints",
        "6.5",
        "Dash-EH with fingerprints and without",
        dash_parts.plan_fingerprints,
        dash_parts.read_fingerprints,
    ),
    _dash(
        "dash-10",
        "Overflow metadata",
        "6.5",
        "Dash-EH with overflow metadata and without, by stash buckets",
        dash_parts.plan_hints,
        dash_parts.read_hints,
    ),
    _dash(
        "dash-11",
        "Load factor of a segment",
        "6.6",
        "one segment when it first has no room, by size and technique",
        dash_pools.plan_segments,
        dash_pools.read_segments,
        "",
    ),
    _dash(
        "dash-12",
        "Load factor over a load",
        "6.6",
        "load factor while tables grow",
        dash_pools.plan_load_factors,
        dash_pools.read_load_factors,
        "Baselines are rebuilt from their papers.",
    ),
    _dash(
        "dash-13",
        "Optimistic and pessimistic locks",
        "6.7",
        "searches of Dash-EH by threads, with both",
        dash_parts.plan_locks,
        dash_parts.read_locks,
        f"{_MEDIA} The pessimistic variant locks the target bucket alone, for readers too.",
    ),
    _dash(
        "dash-14",
        "Throughput after a restart",
        "6.8",
        "searches from the moment on when a killed table is open again",
        dash_pools.plan_restart,
        dash_pools.read_restart,
    ),
    _dash(
        "dash-15",
        "Cost of allocating",
        "6.9",
        "insert into a pool that was backed beforehand, and into one that grows",
        dash.plan_allocator,
        dash.read_allocator,
        "The paper compares PMDK's allocator with one of its own, and two kernels.",
    ),
    _dash(
        "dash-table-1",
        "Recovery time",
        "6.8",
        "from opening a killed table until it answers, by records",
        dash_pools.plan_recovery,
        dash_pools.read_recovery,
    ),
    _dash(
        "dash-volatile",
        "Beside a volatile table",
        "-",
        "boost::concurrent_flat_map in the same run; not in the paper",
        dash.plan_volatile,
        dash.read_volatile,
        "Needs a perdure-bench that was built with Boost.Unordered (scripts/setup.sh installs it).",
    ),
    *hrocks.FIGURES,
    *prestores.FIGURES,
    *hetero.FIGURES,
    *kv.FIGURES,
)

FIGURES = {figure.name: figure for figure in _ALL}
