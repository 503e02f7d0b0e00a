"""`perdure bench figure`: the figures of GPHash's evaluation (section 4), measured again with perdure-bench.

A figure plans its runs of perdure-bench, and reads their JSON into panels to draw and claims to compare:

    model       what figures, runs, panels and claims are
    setting     how large a measurement is, on which device, over which data
    throughput  figures 5, 6, 8       cache       figures 9, 11, 12, 15
    tables      figures 7, 13, 14     real_world  figure 10
    catalogue   all of them, and what of the paper is left out
    runner      runs perdure-bench    plots, report, command   what comes out
"""
