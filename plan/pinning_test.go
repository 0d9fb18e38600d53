package plan

import (
	"cmp"
	"fmt"
	"strconv"
	"strings"
	"testing"

	"remshell/idset"
	"remshell/job"
	"remshell/psi"
)

// pinning returns the request and the nodes for a row of pinning.txt.
func pinning(t *testing.T, n int, words string, snap job.Snapshot) (job.Request, job.Snapshot) {
	t.Helper()
	app := job.App{N: n}
	var placing job.Placement
	def := job.NodeDef{NodePolicy: job.NodePolicy{UserCPUMap: true}}
	for _, word := range strings.Fields(words) {
		name, value, _ := strings.Cut(word, "=")
		switch name {
		case "tpp":
			app.CPUsPerRank, _ = strconv.Atoi(value)
		case "map":
			placing.CPUMap, placing.CPUMapOrigin = mapping(t, value), "--cpu-map"
		case "nodemap":
			def.CPUMap = mapping(t, value)
		case "nousermap":
			def.UserCPUMap = false
		case "threads":
			def.CountThreads = true
		case "overbook":
			placing.Overbook = true
		case "nopin":
			placing.NoPin = true
		case "nomem":
			placing.NoMemBind = true
		default:
			t.Fatalf("%q is no word", word)
		}
	}
	for i := range snap.Nodes {
		node := &snap.Nodes[i]
		def.ID, def.Name = node.ID, node.Name
		node.NodeDef = def
	}
	return requestFor(job.Request{Apps: []job.App{app}, Placement: placing}, snap)
}

func mapping(t *testing.T, list string) []int {
	t.Helper()
	numbers, bad, ok := psi.ParseCPUMap(list)
	if !ok {
		t.Fatalf("%q: %q", list, bad)
	}
	return numbers
}

// boundCPUs formats the bound CPUs of each rank of the first node, and the codes of notes.
func boundCPUs(p job.Plan) string {
	var parts []string
	for _, r := range p.Nodes[0].Ranks {
		parts = append(parts, fmt.Sprintf("%s/%s/%s", cmp.Or(idset.Text(r.Slots), "-"), cmp.Or(idset.Text(r.CPUs), "-"), cmp.Or(idset.Text(r.Mems), "-")))
	}
	for _, note := range p.Notes {
		parts = append(parts, note.Code)
	}
	return strings.Join(parts, " ")
}

// The binding of ranks without layout options, on captured nodes.
func TestPinning(t *testing.T) {
	rows := 0
	for line, f := range vectorRows(t, "pinning.txt", 4) {
		n, err := strconv.Atoi(f[1])
		if err != nil {
			t.Fatal(err)
		}
		got := ""
		if p, err := Make(pinning(t, n, f[2], capturedNodes(t, f[0]))); err != nil {
			got = "error: " + err.Error()
		} else {
			got = boundCPUs(p)
		}
		if rows++; got != f[3] {
			t.Errorf("%s\n got %s", line, got)
		}
	}
	if rows < 40 {
		t.Errorf("%d rows", rows)
	}
}
