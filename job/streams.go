package job

import "math"

// Streams says where the standard streams of the ranks come from and go to (cli.md
// section 6). The zero value is the default: rank 0 reads our standard input, and all
// write to our own streams, without labels.
type Streams struct {
	Stdin       RankSet // who reads our standard input; nil: rank 0, empty: nobody
	StdinFile   string  // the file that is read instead; empty: none
	Out, Err    Output
	ShownRanks  RankSet // whose output goes to our own streams; nil: all
	MergeStderr bool    // the ranks have one stream for both, that is stdout
	Raw         bool    // bytes go on as they come, not line by line
	Collapse    bool    // equal lines once, with the ranks that wrote them
	Ordered     bool    // all of rank 0, then all of rank 1, ...
	PTY         RankSet // who has a pseudo-terminal
}

// ReadsStdin reports whether a rank gets our standard input.
func (s Streams) ReadsStdin(rank int) bool {
	if s.Stdin == nil {
		return rank == 0
	}
	return s.Stdin.Contains(rank)
}

// An Output is what becomes of one output stream of every rank. Patterns are those of
// stdio.ParseLabel and stdio.ParseFile.
type Output struct {
	Label    string // pattern of what each line begins with
	Color    bool   // labels have the color of their rank
	File     string // pattern of the names of files, whose folders are made; empty: none
	Append   bool   // to what the files hold
	FileOnly bool   // the files alone, and not our own stream
}

// RankSet are some of the ranks of a job.
type RankSet []RankRange

// A RankRange is the ranks from First to Last.
type RankRange struct{ First, Last int }

// AllRanks are all that there are.
var AllRanks = RankSet{{0, math.MaxInt}}

// Contains reports whether a rank is one of them.
func (r RankSet) Contains(rank int) bool {
	for _, s := range r {
		if s.First <= rank && rank <= s.Last {
			return true
		}
	}
	return false
}

// LastRank is the highest rank that is named by number; -1: there is none.
func (r RankSet) LastRank() int {
	last := -1
	for _, s := range r {
		if s.Last != math.MaxInt {
			last = max(last, s.Last)
		}
	}
	return last
}
