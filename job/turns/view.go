package turns

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"remshell/job"
	"remshell/text"
)

// A View describes how a gang (a job that shares CPUs in turns) shares its CPUs, for messages and for JSON.
type View struct {
	Party   int           `json:"party"`
	Parties int           `json:"parties"`
	Slice   float64       `json:"slice_seconds"`
	Share   float64       `json:"share"`          // part of the time in which the gang runs, at most 1
	With    []job.GangJob `json:"shares_with"`    // the gangs that share CPUs with it
	Waits   bool          `json:"waits,omitzero"` // its ranks are stopped until its next slice

	gang job.Gang
}

// NewView returns the View of the gang g. The argument with lists the gangs with which it shares CPUs.
func NewView(g job.Gang, with []job.GangJob) *View {
	v := &View{Party: g.Party, Parties: g.Parties, Slice: g.Slice.Seconds(), With: append([]job.GangJob{}, with...), gang: g}
	v.Share = float64(Share(g.Party, v.competitors(), g.Parties)) / float64(2*g.Parties)
	return v
}

// competitors returns the parties of the gangs in With. The result does not include the gang's own party.
func (v *View) competitors() (parties []int) {
	for _, other := range v.With {
		if other.Party != v.Party {
			parties = append(parties, other.Party)
		}
	}
	return parties
}

// RunsAt reports whether the gang runs at the given time.
func (v *View) RunsAt(at time.Time) bool {
	n, _ := Slice(at, v.gang.Slice)
	return Runs(v.Party, v.competitors(), v.Parties, n)
}

// Percent returns the gang's share of the time as a percentage, such as "50 %".
func (v *View) Percent() string { return fmt.Sprintf("%.0f %%", 100*v.Share) }

// maxNames is the maximum number of jobs that String names.
const maxNames = 4

// String describes in one line how the gang shares its CPUs.
func (v *View) String() string {
	if len(v.With) == 0 {
		return "no other job shares the CPUs of this job"
	}
	var names []string
	for _, other := range v.With {
		names = append(names, string(other.Job))
	}
	slices.Sort(names)
	names = slices.Compact(names)
	line := fmt.Sprintf("the job runs %s of the time, in turns of %v, and shares CPUs with %s: ", v.Percent(), v.gang.Slice, text.Count(len(names), "job"))
	if more := len(names) - maxNames; more > 0 {
		names = append(names[:maxNames], fmt.Sprintf("and %d more", more))
	}
	return line + strings.Join(names, " ")
}
