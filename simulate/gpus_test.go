package simulate

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
)

// A cluster in a file may have GPUs.
func TestGPUsInAFile(t *testing.T) {
	const nodes = `"nodes": [{"id": 0, "name": "a", "cpus": 8, "numa_nodes": 2, "busy_gpus": ["0000:07:00.0"], "gpus": [
		{"vendor": "nvidia", "index": 0, "address": "0000:07:00.0", "numa": 0},
		{"vendor": "nvidia", "index": 1, "address": "0000:47:00.0", "numa": 1}]},
		{"id": 1, "name": "b", "cpus": 8, "gpus": [{"vendor": "amd", "index": 3, "address": "0000:03:00.0", "numa": 0}]}]`
	for _, test := range []struct{ rest, want string }{
		{`"np": 2, "gpus_per_proc": 1`, `{"rank": 0, "node": "a", "id": 0, "slots": [4], "cpus": [4], "mems": [1], "gpus": [{"vendor": "nvidia", "index": 1, "address": "0000:47:00.0"}]},
    {"rank": 1, "node": "b", "id": 1, "slots": [0], "cpus": [0], "mems": [0], "gpus": [{"vendor": "amd", "index": 3, "address": "0000:03:00.0"}]}`},
		{`"np": 1, "gpus_per_proc": 0`, `"mems": [0]}`},
		{`"np": 1`, `"mems": [0]}`},
		{`"np": 3, "gpus_per_proc": 1`, `"error": {"code": "not-enough-gpus", "message": "3 ranks do not fit with -gpus-per-proc 1: mpiexec found 2 free GPUs on 2 nodes (a,b), which is enough for 2 ranks; other jobs use 1", "permanent": false`},
		{`"np": 1, "gpus_per_proc": 3`, `"error": {"code": "no-candidates", "message": "no host can take this job", "permanent": true`},
		{`"np": 1, "gpus_per_proc": -1`, `gpus_per_proc is negative`},
	} {
		s, err := Parse([]byte(`{"version": 1, ` + nodes + `, "env": {}, "options": {"nodes": "0,1", "sort": "NONE"}, ` + test.rest + `}`))
		var b bytes.Buffer
		if err == nil {
			err = Write(&b, s.Decide(s.PSIInput("", s.Flags, nil, nil)))
		} else {
			b.WriteString(err.Error())
			err = nil
		}
		if err != nil || !strings.Contains(b.String(), test.want) {
			t.Errorf("%s: %v\n%s\nwant %s", test.rest, err, &b, test.want)
		}
		var any any
		if err := json.Unmarshal(b.Bytes(), &any); err != nil && !strings.Contains(test.rest, "-1") {
			t.Errorf("%s: %v", test.rest, err)
		}
	}
	for _, bad := range []string{
		`{"vendor": "voodoo", "index": 0, "address": "0000:07:00.0"}`,
		`{"vendor": "amd", "index": 0}`,
		`{"vendor": "amd", "index": -1, "address": "0000:07:00.0"}`,
		`{"vendor": "amd", "index": 0, "address": "a"}, {"vendor": "amd", "index": 1, "address": "a"}`,
	} {
		if _, err := Parse([]byte(`{"version": 1, "nodes": [{"id": 0, "name": "a", "cpus": 1, "gpus": [` + bad + `]}]}`)); err == nil {
			t.Errorf("accepted %s", bad)
		}
	}
}
