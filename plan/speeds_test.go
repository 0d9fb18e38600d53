package plan

import (
	"strings"
	"testing"

	"remshell/job"
	"remshell/pin"
	"remshell/plan/nodeset"
)

// Who has hosts compared by speeds that were found in different ways is told, with the hosts that are compared. The
// cluster file's are like those that most probes find.
func TestSpeedsOfMixedQualityAreToldOf(t *testing.T) {
	speeds := request(t, "ONEOF:PROCSPEED")
	given := nodeset.Attributes{nodeset.ProcSpeed: {Number: nodeset.FromInt(2000)}}
	for name, test := range map[string]struct {
		qualities []job.SpeedQuality // by node; empty: of unknown speed
		say       func(*job.Request)
		want      string // empty: nothing is told
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
		told := ""
		for _, note := range p.Notes {
			if note.Code == "speed-quality" {
				told += note.Text
			}
		}
		if (told != "") != (test.want != "") || !strings.Contains(told, test.want) {
			t.Errorf("%s: told %q, want %q", name, told, test.want)
		}
	}
}
