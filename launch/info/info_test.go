package info

import (
	"slices"
	"strings"
	"testing"

	"remshell/job"
	"remshell/pmiserver/spawn"
)

// Any info keys of a rank give a request with an app context and constraints for each command, or
// an error.
func FuzzRead(f *testing.F) {
	for _, seed := range []string{"", "1", "1 host=b wdir=/tmp\n2 ppr=1:n soft=1:9:2 path=/a:/b", "1 map_by=node add-host=a,b", "1 hostfile=x", "0 arch=x86_64 bind_to=core"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		r := spawn.Request{}
		for line := range strings.Lines(text) {
			c := spawn.Command{Argv: []string{"a"}, Count: len(line)}
			for word := range strings.FieldsSeq(line) {
				key, value, _ := strings.Cut(word, "=")
				c.Info = append(c.Info, spawn.Pair{Key: key, Value: value})
			}
			r.Commands = append(r.Commands, c)
		}
		own := job.Request{Apps: []job.App{{N: 1, Dir: "/home", Argv: []string{"a"}}}, Nodes: []job.NodeDef{{Name: "a", Host: "a"}}}
		find := func(list string) (defs []job.NodeDef, err error) {
			for host := range strings.SplitSeq(list, ",") {
				defs = append(defs, job.NodeDef{Name: host, Host: host})
			}
			return defs, nil
		}
		for _, allow := range []job.SpawnHosts{{}, {Any: true}, {Job: true}} {
			req, wishes, err := MakeRequest(own, own.Apps[0], r, &HostPolicy{FindHosts: find, Allowed: allow})
			if err != nil {
				continue
			}
			if len(req.Apps) != len(r.Commands) || len(wishes) != len(req.Apps) || len(own.Nodes) != 1 {
				t.Fatalf("%d sections and %d wishes of %d programs", len(req.Apps), len(wishes), len(r.Commands))
			}
			for _, app := range req.Apps {
				if !slices.Contains(app.SearchAfter, "/home") {
					t.Fatalf("%q is not looked for where its parent runs, but in %q", text, app.SearchAfter)
				}
			}
			wishes.UsesAllHosts(req)
			if wishes.BoundSoft(req.Apps, 7) == nil {
				wishes.LowerCounts(req.Apps, 3)
			}
		}
	})
}
