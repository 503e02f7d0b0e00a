"""`perdure bench figure`: the figures of the evaluations of GPHash (section 4), GPM (3.2 and
6), Dash (section 6) and H-Rocks (sections 7 and 8.1), measured again with perdure-bench,
perdure-gpmbench and perdure-bench-rocks.

A figure plans its runs, and reads their JSON into panels to draw and claims to compare:

    model       what figures, runs, panels and claims are
    setting     how large a measurement is, on which device, over which data
    throughput  figures 5, 6, 8       cache       figures 9, 11, 12, 15
    tables      figures 7, 13, 14     real_world  figure 10
    gpm         all of GPM's              dash, dash_parts, dash_pools  all of Dash's
    hrocks      H-Rocks'
    catalogue   all of them, and what of the paper is left out
    runner      runs the programs     plots, report, command   what comes out
"""
