package region

import (
	"fmt"
	"strings"
	"testing"

	"remshell/job"
)

// node returns a node with these flavors; "" means none.
func node(name, flavors string) *job.NodeDef {
	n := &job.NodeDef{Name: name, Aliases: []string{name + ".cluster"}}
	if flavors != "" {
		n.Flavors = strings.Fields(flavors)
	}
	return n
}

func width(cpus int) job.Gate { return job.Gate{Width: &cpus} }

func TestSignature(t *testing.T) {
	for _, test := range []struct{ flavors, want string }{{"", "ap"}, {"ap os", "os ap"}, {"ap su os", "os su ap"}, {"su", "su"}} {
		n := node("a", test.flavors)
		if got := Signature(n.Flavors); got != test.want || RunsRanks(n.Flavors) != strings.HasSuffix(test.want, "ap") {
			t.Errorf("%q: %q; want %q", test.flavors, got, test.want)
		}
	}
}

// A node belongs to the first region of the file that matches it. The domain orders the regions.
func TestRegionOfANode(t *testing.T) {
	regions := []job.Region{{Name: "named", Nodes: []string{"N1", "n9.cluster"}}, {Name: "plain", Signature: "ap"}, {Name: "late", Nodes: []string{"n2"}},
		{Name: "service", Signature: "ap su os"}}
	for _, test := range []struct {
		domain string
		*job.NodeDef
		want string
	}{
		{"", node("n1", ""), "0 named"}, {"", node("n9", ""), "0 named"}, {"", node("n2", ""), "1 plain"}, {"", node("n2", "su ap"), "2 late"},
		{"", node("n3", "su ap"), "-1 "}, {"", node("h", "os su ap"), "3 service"},
		{"plain named", node("n1", ""), "1 named"}, {"plain named", node("n2", ""), "0 plain"}, {"plain named", node("h", "os su ap"), "-1 service"},
	} {
		var domain []string
		if test.domain != "" {
			domain = strings.Fields(test.domain)
		}
		number, name := New(regions, domain).RegionOf(test.NodeDef)
		if got := fmt.Sprint(number, " ", name); got != test.want {
			t.Errorf("%s of domain %q: %q; want %q", test.Name, test.domain, got, test.want)
		}
	}
}

func TestGates(t *testing.T) {
	user := job.User{UID: 7, GID: 8, GIDs: []int{9}}
	tests := []struct {
		name   string
		gate   job.Gate
		before Size
		GateRequest
		open, unsure bool
	}{
		{"no gate", job.Gate{}, Size{CPUs: 4}, GateRequest{User: user, CPUs: 1}, true, false},
		{"wider", width(3), Size{CPUs: 4}, GateRequest{User: user, CPUs: 4}, true, false},
		{"at the width", width(4), Size{}, GateRequest{User: user, CPUs: 4}, false, false},
		{"wider than all before", width(job.AutoWidth), Size{CPUs: 4}, GateRequest{User: user, CPUs: 5}, true, false},
		{"as wide as all before", width(job.AutoWidth), Size{CPUs: 4}, GateRequest{User: user, CPUs: 4}, false, false},
		{"an unknown size", width(job.AutoWidth), Size{CPUs: 4, Unknown: true}, GateRequest{User: user, CPUs: 50}, false, true},
		{"a number does not ask for sizes", width(3), Size{Unknown: true}, GateRequest{User: user, CPUs: 4}, true, false},
		{"no number of ranks", width(0), Size{}, GateRequest{User: user}, false, false},
		{"for the user", job.Gate{Access: job.Access{Users: []int{7}}}, Size{}, GateRequest{User: user}, true, false},
		{"for others", job.Gate{Access: job.Access{Users: []int{1}}}, Size{}, GateRequest{User: user}, false, false},
		{"root passes", job.Gate{Access: job.Access{Users: []int{1}}}, Size{}, GateRequest{}, true, false},
		{"for the group", job.Gate{Access: job.Access{Groups: []int{9}}}, Size{}, GateRequest{User: user}, true, false},
		{"for the class", job.Gate{Classes: []string{"wide"}}, Size{}, GateRequest{User: user, Class: "wide"}, true, false},
		{"for another class", job.Gate{Classes: []string{"wide"}}, Size{}, GateRequest{}, false, false},
	}
	for _, test := range tests {
		d := New([]job.Region{{Name: "main", Nodes: []string{"a"}}, {Name: "over", Nodes: []string{"b"}, Gate: test.gate}}, nil)
		verdicts := d.JudgeGates(test.GateRequest, []Size{test.before, {CPUs: 99}})
		if v := verdicts[1]; (v.ClosedReason == "") != test.open || v.MayOpenLater != test.unsure || verdicts[0].ClosedReason != "" {
			t.Errorf("%s: %+v", test.name, verdicts)
		}
	}
}

// For an automatic gate all earlier regions of the domain count, whether or not the job may enter them.
func TestAutoCountsAllRegionsBefore(t *testing.T) {
	d := New([]job.Region{{Name: "a", Signature: "ap"}, {Name: "b", Nodes: []string{"b"}, Gate: width(100)}, {Name: "c", Nodes: []string{"c"}, Gate: width(job.AutoWidth)}}, nil)
	sizes := []Size{{CPUs: 4}, {CPUs: 3}, {CPUs: 50}}
	for cpus, want := range map[int]bool{7: false, 8: true} {
		v := d.JudgeGates(GateRequest{CPUs: cpus}, sizes)
		if open := v[2].ClosedReason == ""; open != want {
			t.Errorf("%d CPUs: %+v", cpus, v)
		}
	}
	if v := d.JudgeGates(GateRequest{CPUs: 7}, sizes)[2]; v.ClosedReason != "is for jobs of more than 7 CPUs, but this job needs 7 CPUs" {
		t.Errorf("%q", v.ClosedReason)
	}
	if !d.NeedsSize(0) || !d.NeedsSize(1) || d.NeedsSize(2) || d.NeedsSize(OutsideDomain) {
		t.Error("the sizes of a and b matter, and no others")
	}
}
