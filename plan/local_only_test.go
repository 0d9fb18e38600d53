package plan

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"remshell/idset"
	"remshell/job"
	"remshell/pin"
)

// On this machine alone nothing is refused for lack of CPUs, and overbooking excludes no other job.
// Written slots still count, and --wait waits (PLACE-4).
func TestLocalOnly(t *testing.T) {
	over, forbid, wait, none := job.Placement{Overbook: true}, job.Placement{NoOversubscribe: true}, job.Placement{Wait: true}, job.Placement{}
	layout := func(text string) (p job.Placement) {
		if err := p.Layout.Map.UnmarshalText([]byte(text)); err != nil {
			t.Fatal(err)
		}
		return p
	}
	bound := func(text string) (p job.Placement) {
		if err := p.Layout.Bind.UnmarshalText([]byte(text)); err != nil {
			t.Fatal(err)
		}
		return p
	}
	const all, rest = "share 2 CPUs with other jobs; no CPU is free", "share 1 of 2 CPUs; other jobs use the rest"
	for _, test := range []struct {
		name, cluster string
		busy          []int
		ranks, width  int
		placing       job.Placement
		want          string // CPUs of the ranks, "-" for an unbound rank; or the code of an error
		text          string // end of the notice, or part of the error
	}{
		{"more ranks than CPUs", "a:2", nil, 3, 1, none, "0 1 0", "3 ranks share 2 CPUs. To hide this message, use --oversubscribe"},
		{"each wants more than there is", "a:2", nil, 2, 4, none, "0-1 0-1", "2 ranks share 2 CPUs; each needs 4. To hide this message, use --oversubscribe"},
		{"two jobs", "a:2", []int{0, 1}, 2, 1, none, "- -", all},
		{"two jobs, one CPU is free", "a:2", []int{0}, 2, 1, none, "1 1", rest},
		{"what is free is enough", "a:2", []int{0}, 1, 1, none, "1", ""},
		{"wide ranks", "a:2", []int{0, 1}, 2, 8, none, "- -", all},
		{"counted", "a:2/4", nil, 4, 1, none, "0 1 0 1", ""},
		{"counted, two jobs", "a:2/4", []int{0, 1}, 4, 1, none, "- - - -", all},
		{"counted, one CPU is free", "a:2/2", []int{0}, 2, 1, none, "1 1", rest},
		{"more than was counted", "a:2/2", nil, 3, 1, none, CodeNotEnough, "there are free slots for only 2 ranks on 1 node (a)"},
		{"more than was counted, two jobs", "a:2/2", []int{0, 1}, 3, 1, none, CodeNotEnough, "there are free slots for no rank on 1 node (a)"},
		{"overbooked", "a:2", nil, 3, 1, over, "0 1 0", "3 ranks share the 2 CPUs of this machine; on this machine, --overbook does not keep other jobs away"},
		{"overbooked, two jobs", "a:2", []int{0, 1}, 3, 1, over, "- - -", all + "; on this machine, --overbook does not keep other jobs away"},
		{"overbooked beyond what was counted", "a:2/2", []int{0}, 3, 1, over, "1 1 1", rest + "; on this machine, --overbook does not keep other jobs away"},
		{"forbidden", "a:2", nil, 3, 1, forbid, CodeNotEnough, "3 ranks do not fit"},
		{"forbidden, two jobs", "a:2", []int{0, 1}, 1, 1, forbid, CodeNoNodes, "no host can take this job now"},
		{"waits for all", "a:2", []int{0, 1}, 1, 1, wait, CodeNoNodes, "no host can take this job now"},
		{"waits for enough", "a:2", []int{0}, 2, 1, wait, CodeNotEnough, "2 ranks do not fit"},
		{"waits for enough that was counted", "a:2/2", []int{0}, 2, 1, wait, CodeNotEnough, "2 ranks do not fit"},
		{"waits not for what will never be", "a:2", nil, 3, 1, wait, "0 1 0", "To hide this message, use --oversubscribe"},
		{"by a layout", "a:2", []int{0, 1}, 2, 1, layout("core"), "- -", all},
		{"one on each core", "a:2", nil, 3, 1, layout("ppr:1:core"), "0 1 0", "3 ranks share 2 CPUs. To hide this message, use --oversubscribe"},
		{"one on each core, counted", "a:2/3", nil, 3, 1, layout("ppr:1:core"), CodeNotEnough, "allows only 2 ranks"},
		{"CPUs by their numbers", "a:2", []int{0}, 1, 1, bound("user:0"), "0", "1 rank shares the 2 CPUs of this machine with other jobs"},
	} {
		snap := cluster(test.cluster)
		snap.Nodes[0].BusyCPUs, snap.Nodes[0].Ranks, snap.Nodes[0].BoundRanks = test.busy, len(test.busy), len(test.busy)
		p, err := Make(requestFor(job.Request{Apps: []job.App{{N: test.ranks, RankNeeds: job.RankNeeds{CPUsPerRank: test.width}}}, Placement: test.placing, LocalOnly: true}, snap))
		got, text := cpusOf(p), ""
		var failed *Error
		if errors.As(err, &failed) {
			got, text = failed.Code, failed.Text
		}
		for _, note := range p.Notes {
			text += note.Text
		}
		if got != test.want || !strings.HasSuffix(text, test.text) && err == nil || !strings.Contains(text, test.text) || (text == "") != (test.text == "") {
			t.Errorf("%s: got %q, text %q; want %q, %q", test.name, got, text, test.want, test.text)
		}
		if p.Exclusive {
			t.Errorf("%s: it keeps others away", test.name)
		}
	}
}

// cpusOf formats the CPUs of each rank: "0 0,1 -".
func cpusOf(p job.Plan) string {
	var words []string
	for _, n := range p.Nodes {
		for _, r := range n.Ranks {
			word := idset.Text(r.CPUs)
			if word == "" {
				word = "-"
			}
			words = append(words, word)
		}
	}
	return strings.Join(words, " ")
}

// CPUs that a rank file names are used even if another job uses them. CPUs that it names twice need
// --overbook, as elsewhere.
func TestRankFileLocalOnly(t *testing.T) {
	at := func(cpu int) job.FixedPlacement {
		return job.FixedPlacement{Picks: []pin.CPURange{{First: cpu, Last: cpu}}}
	}
	for _, test := range []struct {
		name       string
		placements []job.FixedPlacement
		want       string
	}{
		{"another job's", []job.FixedPlacement{at(0), at(1)}, "0 1"},
		{"the same twice", []job.FixedPlacement{at(1), at(1)}, "the rank file gives CPU 1 of a to both rank 0 and rank 1"},
		{"no CPU was said", []job.FixedPlacement{{}, {}}, "1 1"},
	} {
		snap := cluster("a:2")
		snap.Nodes[0].BusyCPUs, snap.Nodes[0].Ranks, snap.Nodes[0].BoundRanks = []int{0}, 1, 1
		p, err := Make(requestFor(job.Request{Apps: []job.App{{N: 2}}, FixedPlacements: test.placements, LocalOnly: true}, snap))
		got := cpusOf(p)
		if err != nil {
			got = err.Error()
		}
		if got != test.want || err == nil && (!p.Overbooked || len(p.Notes) != 1) {
			t.Errorf("%s: %s, %v; want %s and a notice", test.name, got, fmt.Sprint(p.Notes), test.want)
		}
	}
}
