// Reads an interval log with HdrHistogram's Go library and prints what it finds, one
// line for each series: tag, intervals, count, and percentiles in nanoseconds.
package main

import (
	"fmt"
	"os"
	"sort"

	"github.com/HdrHistogram/hdrhistogram-go"
)

type series struct {
	intervals int
	sum       *hdrhistogram.Histogram
}

func main() {
	file, err := os.Open(os.Args[1])
	if err != nil {
		panic(err)
	}
	all := map[string]*series{}
	reader := hdrhistogram.NewHistogramLogReader(file)
	for {
		next, err := reader.NextIntervalHistogram()
		if err != nil {
			panic(err)
		}
		if next == nil {
			break
		}
		of := all[next.Tag()]
		if of == nil {
			of = &series{sum: hdrhistogram.New(1, 3600000000000, 3)}
			all[next.Tag()] = of
		}
		of.intervals++
		if dropped := of.sum.Merge(next); dropped > 0 {
			panic(fmt.Sprintf("%d values dropped", dropped))
		}
	}
	tags := make([]string, 0, len(all))
	for tag := range all {
		tags = append(tags, tag)
	}
	sort.Strings(tags)
	for _, tag := range tags {
		of := all[tag]
		fmt.Printf("%s,%d,%d", tag, of.intervals, of.sum.TotalCount())
		for _, p := range []float64{50, 90, 99, 99.9, 100} {
			fmt.Printf(",%d", of.sum.ValueAtPercentile(p))
		}
		fmt.Println()
	}
}
