//go:build linux

package main

import (
	"context"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"remshell/tools/testbed"
)

// A scaleCase is /bin/true on so many hosts of a field of their own, one rank each, over SSH: what each costs mpiexec.
type scaleCase struct {
	hosts  int
	rounds int
}

var scaleCases = []scaleCase{{64, 5}, {250, 3}, {500, 2}, {1000, 2}}

func (c scaleCase) name() string { return fmt.Sprintf("scale, %d hosts", c.hosts) }

// A scaleRow is what a case took.
type scaleRow struct {
	scaleCase
	samples []sample
}

// scales measures the cases whose names contain only, the smallest first. A host costs this machine some
// 15 MB, so the field may be too large for it: then the rows before it stand, and what failed is said.
func (b *bench) scales(ctx context.Context, only string) ([]scaleRow, error) {
	var rows []scaleRow
	for _, c := range scaleCases {
		if !strings.Contains(c.name(), only) {
			continue
		}
		fmt.Fprintf(os.Stderr, "bench: %s\n", c.name())
		r, err := b.scale(ctx, c)
		if err != nil && len(rows) > 0 && ctx.Err() == nil {
			fmt.Fprintf(os.Stderr, "bench: %s: not measured: %v\n", c.name(), err)
			break
		}
		if err != nil {
			return nil, err
		}
		rows = append(rows, r)
	}
	return rows, nil
}

// scale measures one case, after a round that fills the hosts' caches.
func (b *bench) scale(ctx context.Context, c scaleCase) (r scaleRow, err error) {
	r.scaleCase = c
	field, err := testbed.Up(ctx, testbed.Options{Hosts: c.hosts})
	if err != nil {
		return r, err
	}
	defer field.Down()
	on := *b
	on.field = field
	// All hosts share this machine: a login may take longer than on a machine of its own.
	words := []string{b.ours, "--no-pin", "--connect-timeout", "300", "-hosts", field.Names(), "-n", strconv.Itoa(c.hosts), "/bin/true"}
	r.samples, err = on.repeated(ctx, c.rounds, run{words: words, onHead: true})
	return r, err
}

// peak is the median of the most memory that mpiexec had.
func (r scaleRow) peak() int64 {
	var list []int64
	for _, s := range r.samples {
		list = append(list, s.peak)
	}
	return median(list)
}

// scaleTable shows the rows as Markdown. From one row to the next a host may cost no more than in the one before.
func scaleTable(rows []scaleRow) string {
	if len(rows) == 0 {
		return ""
	}
	var b strings.Builder
	b.WriteString("\n| | wall, ms | CPU, ms | memory, MiB | CPU of each host, ms | memory of each, KiB |\n|---|--:|--:|--:|--:|--:|\n")
	for _, r := range rows {
		each := median(values(r.samples, cpu)) / time.Duration(r.hosts)
		fmt.Fprintf(&b, "| %s | %s | %s | %.1f | %.2f | %d |\n", r.name(), shown(r.samples, wall), shown(r.samples, cpu),
			float64(r.peak())/(1<<20), float64(each)/float64(time.Millisecond), r.peak()>>10/int64(r.hosts))
	}
	return b.String()
}
