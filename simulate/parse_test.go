package simulate

import (
	"errors"
	"strings"
	"testing"

	"remshell/psi"
)

func TestBadStates(t *testing.T) {
	tests := []struct{ name, text, want string }{
		{"no JSON", `{"nodes": [`, "unexpected end"},
		{"another version", `{"version": 2, "nodes": []}`, "version 2"},
		{"no nodes at all", `{"np": 1}`, "the list of nodes is missing"},
		{"no ID", `{"nodes": [{"name": "a"}]}`, "must have a name and an id"},
		{"no name", `{"nodes": [{"id": 1}]}`, "must have a name"},
		{"same ID", `{"nodes": [{"id": 1, "name": "a"}, {"id": 1, "name": "b"}]}`, "the ID 1"},
		{"same name", `{"nodes": [{"id": 1, "name": "a"}, {"id": 2, "name": "b", "aliases": ["A"]}]}`, `the name "A"`},
		{"wrong type", `{"nodes": [{"id": 1, "name": "a", "cpus": "4"}]}`, "nodes.cpus cannot be string"},
		{"no such shape", `{"nodes": [{"id": 1, "name": "a", "cpus": 4, "numa_nodes": 0}]}`, "a node cannot have"},
		{"too large", `{"nodes": [{"id": 1, "name": "a", "cpus": 100000, "threads_per_core": 100000}]}`, "a node cannot have"},
		{"a CPU twice", `{"nodes": [{"id": 1, "name": "a", "cores": [{"cpus": [0, 1]}, {"cpus": [1]}]}]}`, "CPU 1"},
		{"an empty core", `{"nodes": [{"id": 1, "name": "a", "cores": [{"cpus": []}]}]}`, "a core in the list has no CPUs"},
		{"a core that is not there", `{"nodes": [{"id": 1, "name": "a", "cpus": 2, "cpu_map": [2]}]}`, "core 2"},
		{"overbook", `{"nodes": [{"id": 1, "name": "a", "overbook": "maybe"}]}`, "maybe"},
		{"negative", `{"nodes": [{"id": 1, "name": "a", "procs": -1}]}`, "procs"},
		{"np is no number", `{"nodes": [], "np": true}`, "np cannot be true"},
		{"tpp is no number", `{"nodes": [], "options": {"tpp": [1]}}`, "options.tpp cannot be a list"},
		{"shape is no number", `{"nodes": [], "options": {"shape": true}}`, "options.shape cannot be true"},
		{"a set of nothing", `{"nodes": [], "config": {"nodeset": {"policy": "ONEOF", "list": [null]}}}`, "list"},
		{"no such quality", `{"nodes": [{"id": 1, "name": "a", "attributes": {"PROCSPEED": 2000}, "speed_quality": "good"}]}`, "speed_quality"},
		{"a quality of nothing", `{"nodes": [{"id": 1, "name": "a", "speed_quality": "max"}]}`, "speed_quality"},
		{"a probe that counts halves", `{"nodes": [{"id": 1, "name": "a", "attributes": {"PROCSPEED": 2000.5}, "speed_quality": "max"}]}`, "speed_quality"},
		{"a queue of nothing", `{"nodes": [], "queue_ahead": -1}`, "queue_ahead"},
	}
	for _, test := range tests {
		_, err := Parse([]byte(test.text))
		var bad *psi.Error
		if !errors.As(err, &bad) || bad.Code != "bad-state" || !strings.Contains(bad.Error(), test.want) {
			t.Errorf("%s: %v; want bad-state with %q", test.name, err, test.want)
		}
	}
}

// Errors of the request name variable and token. The first in the order of 1.5 wins.
func TestOrderOfErrors(t *testing.T) {
	const nodes = `"nodes": [{"id": 1, "name": "a", "cpus": 2, "features": ["eth"]}]`
	faults := []struct{ option, code, token string }{
		{`"np": 0`, "bad-np", "0"},
		{`"options": {"nodes": "x"}`, "bad-nodes", "x"},
		{`"config": {"nodes_sort": "?"}`, "bad-sort", "?"},
		{`"env": {"PSI_NODES_SORT": " nothing "}`, "bad-sort", "nothing"},
		{`"options": {"tpp": 65536}`, "bad-tpp", "65536"},
		{`"options": {"ppn": -1}`, "bad-ppn", "-1"},
		{`"options": {"nodetype": "eth, ib"}`, "unknown-hwtype", "ib"},
		{`"options": {"cpu_map": "0,  08"}`, "bad-cpumap", "  08"},
	}
	for _, fault := range faults {
		text := "{" + nodes + ", " + fault.option
		if !strings.Contains(text, `"np"`) {
			text += `, "np": 1`
		}
		if !strings.Contains(text, `"env"`) {
			text += `, "env": {}`
		}
		o := decideText(t, []byte(text+"}"))
		var bad *psi.Error
		if !errors.As(o.Err, &bad) || bad.Code != fault.code || bad.Token != fault.token {
			t.Errorf("%s: %v; want %s %q", text, o.Err, fault.code, fault.token)
		}
	}
	all := `{` + nodes + `, "np": 1048577, "config": {"nodes_sort": "?"}, "env": {"PSI_NODES_SORT": "?", "PSI_WAIT": "off"},
		"options": {"nodes": "x", "tpp": 0, "ppn": -1, "nodetype": "ib", "cpu_map": "-"}}`
	for _, step := range [][3]string{
		{"bad-np", `1048577`, `1048576`}, {"bad-nodes", `"nodes": "x"`, `"nodes": "1"`}, {"bad-sort", `"nodes_sort": "?"`, `"nodes_sort": "load"`},
		{"bad-sort", `"PSI_NODES_SORT": "?"`, `"PSI_NODES_SORT": "load"`}, {"bad-tpp", `"tpp": 0`, `"tpp": 1`}, {"bad-ppn", `"ppn": -1`, `"ppn": 0`},
		{"unknown-hwtype", `"ib"`, `"eth"`}, {"bad-cpumap", `"cpu_map": "-"`, `"cpu_map": ""`},
	} {
		o := decideText(t, []byte(all))
		var bad *psi.Error
		if !errors.As(o.Err, &bad) || bad.Code != step[0] || len(o.Warnings) != 1 {
			t.Errorf("%s: %v, warnings %v; want %s", all, o.Err, o.Warnings, step[0])
		}
		all = strings.Replace(all, step[1], step[2], 1)
	}
	if o := decideText(t, []byte(all)); errors.As(o.Err, new(*psi.Error)) {
		t.Errorf("%s: %v", all, o.Err)
	}
}
