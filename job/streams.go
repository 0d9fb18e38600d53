package job

import "math"

// Streams says where the standard streams of the ranks come from and go to (cli.md section 6). With the zero value,
// rank 0 reads mpiexec's stdin, and all ranks write to mpiexec's stdout and stderr, without labels.
type Streams struct {
	Stdin       RankSet // ranks that read mpiexec's stdin; nil: rank 0, empty: none
	StdinFile   string  // file that is read instead of stdin; empty: none
	Out, Err    Output
	ShownRanks  RankSet // ranks whose output goes to mpiexec's streams; nil: all
	MergeStderr bool    // ranks write stderr to stdout
	Raw         bool    // pass bytes on as they arrive, not line by line
	Collapse    bool    // print equal lines once, with the ranks that wrote them
	Ordered     bool    // print all output of rank 0, then all of rank 1, ...
	PTY         RankSet // ranks that have a pseudo-terminal
}

// ReadsStdin reports whether a rank reads mpiexec's standard input.
func (s Streams) ReadsStdin(rank int) bool {
	if s.Stdin == nil {
		return rank == 0
	}
	return s.Stdin.Contains(rank)
}

// An Output says where one output stream of the ranks, stdout or stderr, goes. stdio.ParseLabel describes the
// patterns of labels, and stdio.ParseFile those of file names.
type Output struct {
	Label    string // pattern of the label before each line; empty: none
	Color    bool   // color the labels by rank
	File     string // pattern of file names; missing directories are made; empty: none
	Append   bool   // append to existing files
	FileOnly bool   // write to the files only, not to mpiexec's stream
}

// A RankSet is a set of ranks of a job.
type RankSet []RankRange

// A RankRange is the range of ranks from First to Last, inclusive.
type RankRange struct{ First, Last int }

// AllRanks contains every rank.
var AllRanks = RankSet{{0, math.MaxInt}}

// Contains reports whether rank is in the set.
func (r RankSet) Contains(rank int) bool {
	for _, s := range r {
		if s.First <= rank && rank <= s.Last {
			return true
		}
	}
	return false
}

// LastRank returns the highest rank at which a range of the set ends, or -1 if there is none. It ignores ranges without
// an upper limit, such as that of AllRanks.
func (r RankSet) LastRank() int {
	last := -1
	for _, s := range r {
		if s.Last != math.MaxInt {
			last = max(last, s.Last)
		}
	}
	return last
}
