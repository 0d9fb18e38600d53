package plan

import (
	"strings"
	"testing"

	"remshell/job"
	"remshell/pin"
	"remshell/plan/nodeset"
)

// If hosts are compared by speeds of different origin, a note lists the compared hosts. Speeds of the
// cluster file count as nominal.
func TestMixedSpeedNotes(t *testing.T) {
	speeds := request(t, "ONEOF:PROCSPEED")
	given := nodeset.Attributes{nodeset.ProcSpeed: {Number: nodeset.FromInt(2000)}}
	for name, test := range map[string]struct {
		qualities []job.SpeedQuality // by node; empty if the speed is unknown
		say       func(*job.Request)
		want      string // empty if there is no note
	}{
		"alike":        {[]job.SpeedQuality{job.SpeedTurbo, job.SpeedTurbo}, func(r *job.Request) { r.NodeSet = speeds }, ""},
		"mixed":        {[]job.SpeedQuality{job.SpeedTurbo, job.SpeedNominal, job.SpeedMeasured, job.SpeedTurbo}, func(r *job.Request) { r.NodeSet = speeds }, "nominal on b, max on a,d, measured on c"},
		"given":        {[]job.SpeedQuality{job.SpeedGiven, job.SpeedNominal}, func(r *job.Request) { r.NodeSet = speeds }, ""},
		"given, max":   {[]job.SpeedQuality{job.SpeedGiven, job.SpeedTurbo}, func(r *job.Request) { r.NodeSet = speeds }, "nominal on a, max on b"},
		"unknown":      {[]job.SpeedQuality{job.SpeedTurbo, ""}, func(r *job.Request) { r.NodeSet = speeds }, ""},
		"balance":      {[]job.SpeedQuality{job.SpeedTurbo, job.SpeedNominal}, func(r *job.Request) { r.Balance = true }, "nominal on b, max on a"},
		"another set":  {[]job.SpeedQuality{job.SpeedTurbo, job.SpeedNominal}, func(r *job.Request) { r.NodeSet = request(t, "ONEOF:CPUS") }, ""},
		"no set":       {[]job.SpeedQuality{job.SpeedTurbo, job.SpeedNominal}, func(*job.Request) {}, ""},
		"not usable":   {[]job.SpeedQuality{job.SpeedTurbo, job.SpeedNominal}, func(r *job.Request) { r.NodeSet = speeds; r.Nodes[1].NoJobs = true }, ""},
		"not listed":   {[]job.SpeedQuality{job.SpeedTurbo, job.SpeedNominal}, func(r *job.Request) { r.NodeSet = speeds; r.HostEntries = []int{0} }, ""},
		"listed twice": {[]job.SpeedQuality{job.SpeedTurbo, job.SpeedNominal}, func(r *job.Request) { r.NodeSet = speeds; r.HostEntries = []int{0, 1, 0} }, "nominal on b, max on a"},
	} {
		req := job.Request{Apps: []job.App{{N: 1}}}
		for i := range test.qualities {
			def := job.NodeDef{ID: i, Name: string(rune('a' + i))}
			if test.qualities[i] == job.SpeedGiven {
				def.Attributes = given
			}
			req.Nodes = append(req.Nodes, def)
		}
		test.say(&req)
		var snap job.Snapshot
		for i, quality := range test.qualities {
			n := job.Node{NodeDef: req.Nodes[i], Probe: job.Probe{Topology: pin.Topology{Cores: []pin.Core{{CPUs: []int{0}, CoreLocation: pin.UnknownLocation}}}}}
			if quality != "" {
				n.ProbedAttributes = job.Attributes{Speed: 2000, SpeedQuality: quality}
			}
			snap.Nodes = append(snap.Nodes, n)
		}
		p, err := Make(req, snap)
		if err != nil {
			t.Errorf("%s: %v", name, err)
		}
		texts := ""
		for _, note := range p.Notes {
			if note.Code == "speed-quality" {
				texts += note.Text
			}
		}
		if (texts != "") != (test.want != "") || !strings.Contains(texts, test.want) {
			t.Errorf("%s: notes %q, want %q", name, texts, test.want)
		}
	}
}
