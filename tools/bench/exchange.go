//go:build linux

package main

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"
)

// exchange is the program of testdata/pmi1: what an MPI_Init asks of PMI; modex is that of
// testdata/pmix, which asks it of PMIx.
const (
	exchange = "build/programs/exchange"
	modex    = "build/programs/modex"
)

// An exchangeCase is one shape of a job in which every rank gets a key of every other:
// so many ranks on each of so many hosts, or on this machine if that is 0.
type exchangeCase struct {
	rival      rival // Hydra: by PMI; mpirun: by PMIx
	hosts, per int
	rounds     rounds
	most       float64 // the greatest ratio of the total time that is wanted; 0: no goal
}

// exchangeCases grow until the goals of the issue: 512 ranks here, and 8 hosts of 128.
var exchangeCases = []exchangeCase{
	{hydra, 0, 128, rounds{5, 10, 10 * time.Second}, 0},
	{hydra, 0, 256, rounds{5, 10, 15 * time.Second}, 0},
	{hydra, 0, 512, rounds{5, 5, 0}, 0.40},
	{hydra, 8, 16, rounds{3, 6, 10 * time.Second}, 0},
	{hydra, 8, 64, rounds{3, 3, 0}, 0},
	{hydra, 8, 128, rounds{3, 3, 0}, 0.45},
	{mpirun, 0, 64, rounds{5, 10, 10 * time.Second}, 0},
	{mpirun, 0, 256, rounds{5, 5, 0}, 1},
	{mpirun, 8, 32, rounds{3, 3, 0}, 1},
}

func (c exchangeCase) ranks() int { return max(1, c.hosts) * c.per }

func (c exchangeCase) name() string {
	what := map[rival]string{hydra: "exchange", mpirun: "PMIx exchange"}[c.rival]
	if c.hosts == 0 {
		return fmt.Sprintf("%s, local, %d ranks", what, c.per)
	}
	return fmt.Sprintf("%s, %d hosts, %d ranks", what, c.hosts, c.ranks())
}

// words are those behind the name of a launcher, but for its own.
func (c exchangeCase) words(names []string) []string {
	program, option := exchange, "-hosts"
	if c.rival == mpirun {
		program, option = modex, "-host"
	}
	if c.hosts == 0 {
		names = []string{"localhost"}
	} else {
		names = names[:c.hosts]
	}
	slots := make([]string, len(names))
	for i, name := range names {
		slots[i] = name + ":" + strconv.Itoa(c.per)
	}
	return []string{option, strings.Join(slots, ","), "-n", strconv.Itoa(c.ranks()), program}
}

// A swap is what one run of the program has told; its times are explained there.
type swap struct {
	span, total, gets time.Duration
	cpu               time.Duration // of the ranks' parents, between the barriers
	peak              int64         // KiB, of the largest of them
}

// parseSwap reads what rank 0 printed.
func parseSwap(said string, ranks int) (s swap, err error) {
	var told int
	if _, err := fmt.Sscan(said, &told, &s.span, &s.total, &s.gets, &s.cpu, &s.peak); err != nil {
		return s, fmt.Errorf("%s said %q: %w", exchange, said, err)
	}
	if told != ranks {
		return s, fmt.Errorf("%s said that there are %d ranks, not %d", exchange, told, ranks)
	}
	return s, nil
}

// An exchangeRow is all that was measured of one case, by round.
type exchangeRow struct {
	exchangeCase
	swaps [2][]swap   // ours and the rival's
	runs  [2][]sample // of the launching side as a whole
}

// exchanges measures the cases whose names contain only.
func (b *bench) exchanges(ctx context.Context, only string) ([]exchangeRow, error) {
	var rows []exchangeRow
	for _, c := range exchangeCases {
		if !strings.Contains(c.name(), only) {
			continue
		}
		fmt.Fprintf(os.Stderr, "bench: %s\n", c.name())
		r := exchangeRow{exchangeCase: c}
		began := time.Time{}
		for n := -1; n < c.rounds.least || n < c.rounds.most && time.Since(began) < c.rounds.time; n++ {
			if n == 0 {
				began = time.Now()
			}
			if err := b.exchangeRound(ctx, &r, n >= 0); err != nil {
				return nil, err
			}
		}
		rows = append(rows, r)
	}
	return rows, nil
}

// exchangeRound runs a case with both launchers.
func (b *bench) exchangeRound(ctx context.Context, r *exchangeRow, counts bool) error {
	words := r.words(strings.Split(b.field.Names(), ","))
	for i, launcher := range [][]string{{b.ours, "--no-pin"}, append([]string{b.program(r.rival)}, r.rivalOptions()...)} {
		m, err := b.metered(ctx, run{words: append(launcher, words...), onHead: r.hosts > 0, heard: true})
		if err != nil {
			return err
		}
		s, err := parseSwap(m.said, r.ranks())
		if err != nil {
			return err
		}
		if counts {
			r.swaps[i], r.runs[i] = append(r.swaps[i], s), append(r.runs[i], m)
		}
	}
	return nil
}

// rivalOptions are words of the other launcher only.
func (c exchangeCase) rivalOptions() []string {
	switch {
	case c.rival == mpirun:
		return mpirunOptions
	case c.hosts > 0:
		return []string{"-launcher", "ssh"}
	}
	return nil
}

// of lists one figure of one side, by round.
func (r exchangeRow) of(side int, what func(swap) time.Duration) []time.Duration {
	var list []time.Duration
	for _, s := range r.swaps[side] {
		list = append(list, what(s))
	}
	return list
}

// ratio is the median, over the rounds, of ours to the rival's.
func (r exchangeRow) ratio(what func(swap) time.Duration) float64 {
	var list []float64
	other := r.of(1, what)
	for i, ours := range r.of(0, what) {
		list = append(list, float64(ours)/float64(max(1, other[i])))
	}
	return median(list)
}

// peak is the largest resident set, in MiB, of a server of one side.
func (r exchangeRow) peak(side int) float64 {
	var most int64
	for _, s := range r.swaps[side] {
		most = max(most, s.peak)
	}
	return float64(most) / 1024
}

// largest is the same of the launching side, where it started something.
func (r exchangeRow) largest(side int) float64 {
	var most int64
	for _, s := range r.runs[side] {
		most = max(most, s.peak)
	}
	return float64(most) / (1 << 20)
}

// perGet is the time that the machine needs for a get of one rank, with whatever
// server and ranks do for it.
func (r exchangeRow) perGet(side int) float64 {
	gets := median(r.of(side, func(s swap) time.Duration { return s.gets }))
	return float64(gets) / float64(r.ranks()*r.ranks()) / float64(time.Microsecond)
}

// exchangeTable shows the rows as Markdown, those of each rival in a table.
func exchangeTable(rows []exchangeRow) string {
	var b strings.Builder
	for _, r := range []rival{hydra, mpirun} {
		b.WriteString(exchangeTableOf(r, slices.DeleteFunc(slices.Clone(rows), func(row exchangeRow) bool { return row.rival != r })))
	}
	return b.String()
}

func exchangeTableOf(other rival, rows []exchangeRow) string {
	if len(rows) == 0 {
		return ""
	}
	var b strings.Builder
	fmt.Fprintf(&b, "\n| ms, medians | rounds | total: ours | %[1]s | ratio | with start | each get, µs: ours | %[1]s | servers' CPU: ours | %[1]s | ratio | MiB: ours | %[1]s | launching CPU: ours | %[1]s | MiB: ours | %[1]s |\n"+
		"|---|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|\n", other)
	total := func(s swap) time.Duration { return s.total }
	span := func(s swap) time.Duration { return s.span }
	served := func(s swap) time.Duration { return s.cpu }
	for _, r := range rows {
		fmt.Fprintf(&b, "| %s | %d | %s | %s | %.3f | %.3f | %.1f | %.1f | %s | %s | %.3f | %.1f | %.1f | %s | %s | %.1f | %.1f |\n",
			r.name(), len(r.swaps[0]),
			least(r.of(0, total)), least(r.of(1, total)), r.ratio(total), r.ratio(span),
			r.perGet(0), r.perGet(1),
			least(r.of(0, served)), least(r.of(1, served)), r.ratio(served),
			r.peak(0), r.peak(1),
			shown(r.runs[0], cpu), shown(r.runs[1], cpu), r.largest(0), r.largest(1))
	}
	for _, r := range rows {
		if r.most == 0 {
			continue
		}
		word := "reached"
		if cmp.Compare(r.ratio(total), r.most) > 0 {
			word = "MISSED"
		}
		fmt.Fprintf(&b, "\n- %s: %.3f of %s's; goal at most %.2f: %s", r.name(), r.ratio(total), other, r.most, word)
	}
	return b.String() + "\n"
}
