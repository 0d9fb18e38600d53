/*
Package column defines the values that helpers report about running jobs for --ps. Each value is a Column in All:

	helper:   Read ---------> job.Claim.Reported
	wire:                     at most Max
	mpiexec:  Combine ------> one value for all nodes
	format:   Title, Text --> the table of --ps;  Name --> its JSON

To add a value, write a file like state.go with its Column, append the Column to All, and describe it in
doc/guide/sharing.md ("In these tables RANKS is ..."). Everything else, including the tests of the limits, is derived
from the Column. Read may read files of the node through Source.Root. It must do no other input or output.

A value is a number. So a hostile helper can send neither text nor a number larger than Max.
*/
package column

import (
	"io/fs"
	"math"
	"slices"
	"time"

	"remshell/job"
)

// A Column is a value that the helpers of a job's nodes report for --ps.
type Column struct {
	Name    string                 // name in error messages, and of its value in "reported" of the JSON
	Title   string                 // heading in the table; empty: neither the table nor "reported" shows the value
	Max     int64                  // largest value of one node; the smallest is 0
	Read    func(Source) int64     // reads the value of a claim on its node; it may return None
	Combine func(a, b int64) int64 // the value of two nodes together. A negative result counts as an overflow
	Text    func(int64) string     // the cell of the table; nil if Title is empty
}

// None means that a node has no value for a job, or that the node's helper cannot determine the value. Combine is
// not called for None.
const None = -1

// All lists all columns, in the order of the values in job.Claim.Reported. The table of --ps has the same order.
var All = []*Column{&State}

// A Source is a claim together with the data of the claim's node that Column.Read may use.
type Source struct {
	Claim  job.Claim
	Age    time.Duration // of the claim
	Ranks  RanksState
	Hidden bool // this helper cannot see processes of other users (mount option hidepid of /proc)

	// Processes returns the process IDs of the claim's ranks and of all processes below them, without helpers. It
	// returns nil if there are none, or if this helper cannot see them. No other claim has any of these processes, so the
	// values of a job's claims can be summed.
	Processes func() []int
	Root      fs.FS // the root of the node's file system, for proc/PID/...
}

// A RanksState is the combined state of all ranks of a claim.
type RanksState int

// These are the states of a claim's ranks.
const (
	NoRanks      RanksState = iota // the claim's process has none, or is not its user's
	RanksRunning                   // at least one runs
	RanksStopped
)

// ReadAll returns the values of all columns for a claim on its node.
func ReadAll(s Source) (reported []int64) {
	for _, c := range All {
		reported = append(reported, min(max(c.Read(s), None), c.Max))
	}
	return reported
}

// Of returns the column's value in reported, which is a job.Claim.Reported. It returns None if the helper has
// reported too few values.
func (c *Column) Of(reported []int64) int64 {
	if i := slices.Index(All, c); i >= 0 && i < len(reported) {
		return reported[i]
	}
	return None
}

// Combine combines the values of two claims, or of two nodes, column by column.
func Combine(a, b []int64) (combined []int64) {
	for _, c := range All {
		combined = append(combined, c.combine(c.Of(a), c.Of(b)))
	}
	return combined
}

func (c *Column) combine(a, b int64) int64 {
	if a == None || b == None {
		return max(a, b)
	}
	if sum := c.Combine(a, b); sum >= 0 {
		return sum
	}
	return math.MaxInt64
}

// Shown returns the columns that are shown in the table and in the JSON of --ps.
func Shown() (shown []*Column) {
	for _, c := range All {
		if c.Title != "" {
			shown = append(shown, c)
		}
	}
	return shown
}
