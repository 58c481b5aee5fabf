// Reads an interval log with HdrHistogram's Java library and prints what it finds, one
// line for each series: tag, intervals, count, and percentiles in nanoseconds. Then,
// for the series without a tag, its percentile distribution in milliseconds.

import java.io.File;
import java.io.PrintStream;
import java.util.Map;
import java.util.TreeMap;
import org.HdrHistogram.EncodableHistogram;
import org.HdrHistogram.Histogram;
import org.HdrHistogram.HistogramLogReader;

public class Read {
    public static void main(String[] args) throws Exception {
        Map<String, Histogram> sums = new TreeMap<>();
        Map<String, Integer> intervals = new TreeMap<>();
        HistogramLogReader reader = new HistogramLogReader(new File(args[0]));
        EncodableHistogram next;
        while ((next = reader.nextIntervalHistogram()) != null) {
            String tag = next.getTag() == null ? "" : next.getTag();
            sums.computeIfAbsent(tag, t -> new Histogram(1, 3600000000000L, 3))
                .add((Histogram) next);
            intervals.merge(tag, 1, Integer::sum);
        }
        PrintStream out = System.out;
        for (String tag : sums.keySet()) {
            Histogram sum = sums.get(tag);
            out.print(tag + "," + intervals.get(tag) + "," + sum.getTotalCount());
            for (double p : new double[] {50, 90, 99, 99.9, 100}) {
                out.print("," + sum.getValueAtPercentile(p));
            }
            out.println();
        }
        out.println("--");
        sums.get("").outputPercentileDistribution(out, 5, 1e6);
    }
}
