//! Statistics for measurements: histograms that merge without loss, percentiles,
//! intervals, comparison. Pure: no clock, no file, no socket.
