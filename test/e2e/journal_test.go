//go:build linux

package e2e

import (
	"bufio"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"remshell/tools/testbed"
)

// An event is what a reader of --json makes of a line.
type event struct {
	V      int
	Time   time.Time
	Event  string
	Rank   int
	Node   string
	Host   string
	Stream string
	Text   string
	Code   *int
	Plan   *struct{ Ranks []struct{ Node string } }
	Usage  []struct {
		Node  string
		Ranks int
	}
}

// The events of a run on two hosts, read as a program reads them: each line is one object, those
// of a rank come in their order, and what they tell is what the ranks and the shell say
// (DIAG-7).
func TestEvents(t *testing.T) {
	b := newTestCluster(t, testbed.Options{Hosts: 2})
	r := b.runMpiexec(t, "--json", "--json-output", "-K0", "-host", hostsWithSlots(b, 2), "-ppn", "2", "-n", "4", "sh", "-c",
		`i=0; while [ $i -lt 300 ]; do echo "$PMI_RANK says $i"; echo "$PMI_RANK errs $i" >&2; i=$((i+1)); done; [ $PMI_RANK != 3 ] || exit 5`)
	if r.code != 5 || strings.Count(r.err, " says ") < 1200 {
		t.Fatalf("code %d, stderr of %d bytes, which begins %.300q", r.code, len(r.err), r.err)
	}
	counts, kind := make(map[string]int), ""
	texts, last := make(map[string]string), make(map[int]string)
	for lines := bufio.NewScanner(strings.NewReader(r.out)); lines.Scan(); {
		var e event
		if err := json.Unmarshal(lines.Bytes(), &e); err != nil || e.V != 1 || e.Event == "" || time.Since(e.Time) > time.Hour {
			t.Fatalf("%v: %s", err, lines.Text())
		}
		kind = e.Event
		counts[kind]++
		switch before := last[e.Rank]; e.Event {
		case "connect":
			if e.Host == "" {
				t.Errorf("no host: %s", lines.Text())
			}
		case "plan":
			if e.Plan == nil || len(e.Plan.Ranks) != 4 || e.Plan.Ranks[3].Node != b.hosts()[1] {
				t.Errorf("%s", lines.Text())
			}
		case "start":
			if last[e.Rank] = "start"; before != "" || e.Node != b.hosts()[e.Rank/2] {
				t.Errorf("after %q: %s", before, lines.Text())
			}
		case "output":
			if last[e.Rank] = "output"; before != "start" && before != "output" {
				t.Errorf("after %q: %s", before, lines.Text())
			}
			texts[fmt.Sprint(e.Rank, e.Stream)] += e.Text
		case "exit":
			if last[e.Rank] = "exit"; before == "exit" || before == "" || e.Code == nil {
				t.Errorf("after %q: %s", before, lines.Text())
			}
		case "summary":
			if e.Code == nil || *e.Code != 5 || len(e.Usage) != 2 || e.Usage[0].Ranks != 2 {
				t.Errorf("%s", lines.Text())
			}
		}
	}
	delete(counts, "output")
	if got := fmt.Sprint(counts); got != "map[connect:2 exit:4 plan:1 start:4 summary:1]" || kind != "summary" {
		t.Errorf("events %s, the last is %s", got, kind)
	}
	for stream, verb := range map[string]string{"3stdout": "says", "3stderr": "errs"} {
		if want := fmt.Sprintf("3 %s 0\n3 %s 1\n", verb, verb); !strings.HasPrefix(texts[stream], want) || strings.Count(texts[stream], "\n") != 300 {
			t.Errorf("%s: %d lines, which begin %.60q", stream, strings.Count(texts[stream], "\n"), texts[stream])
		}
	}
}
