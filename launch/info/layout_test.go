package info

import (
	"encoding"
	"testing"

	"remshell/job"
	"remshell/pin"
	"remshell/pmiserver/spawn"
)

// A spawn's layout keys have the values of the options. Values for the command line only are
// refused. Without a key the job's setting remains.
func TestLayoutOfASpawn(t *testing.T) {
	pairs := func(words ...string) (all []spawn.Pair) {
		for i := 0; i < len(words); i += 2 {
			all = append(all, spawn.Pair{Key: words[i], Value: words[i+1]})
		}
		return all
	}
	layout := func(mapping, ranking, binding string) (l pin.Layout) {
		for _, part := range []struct {
			text string
			to   encoding.TextUnmarshaler
		}{{mapping, &l.Map}, {ranking, &l.Rank}, {binding, &l.Bind}} {
			if part.text == "" {
				continue
			}
			if err := part.to.UnmarshalText([]byte(part.text)); err != nil {
				t.Fatal(err)
			}
		}
		return l
	}
	asJob := job.Placement{Layout: layout("", "", "core")}
	for name, test := range map[string]struct {
		infos [][]spawn.Pair // by command
		want  job.Placement
		err   string
	}{
		"nothing":           {infos: [][]spawn.Pair{nil}, want: asJob},
		"by node":           {infos: [][]spawn.Pair{pairs("map_by", "node")}, want: job.Placement{Layout: layout("node", "", "core"), RoundRobin: true}},
		"so many on a node": {infos: [][]spawn.Pair{pairs("ppr", "2:node", "rank_by", "node")}, want: job.Placement{Layout: layout("ppr:2:node", "node", "core")}},
		"all is said":       {infos: [][]spawn.Pair{pairs("map_by", "socket:span", "bind_to", "none")}, want: job.Placement{Layout: layout("socket:span", "", "none"), NoPin: true}},
		"no sharing":        {infos: [][]spawn.Pair{pairs("map_by", "core:nooversubscribe")}, want: job.Placement{Layout: layout("core:nooversubscribe", "", "core"), NoOversubscribe: true}},
		"two programs":      {infos: [][]spawn.Pair{pairs("map_by", "core"), pairs("map_by", "core")}, want: job.Placement{Layout: layout("core", "", "core")}},
		"two layouts": {infos: [][]spawn.Pair{pairs("map_by", "core"), nil},
			err: `info keys "map_by", "ppr", "rank_by", "bind_to": all programs of a spawn need the same values, but one has map_by=core and another has none`},
		"a file": {infos: [][]spawn.Pair{pairs("map_by", "rankfile:file=/etc/shadow")},
			err: `info key "map_by": "rankfile:file=/etc/shadow" is not allowed in a spawn; allowed: slot, node, socket, numa, a cache, core or hwthread`},
		"CPUs": {infos: [][]spawn.Pair{pairs("bind_to", "cpu-list=0")},
			err: `info key "bind_to": "cpu-list=0" is not allowed in a spawn; allowed: slot, node, socket, numa, a cache, core or hwthread`},
		"no number": {infos: [][]spawn.Pair{pairs("ppr", "many:node")}, err: `info key "ppr": ppr: "many" is not a number of ranks; write ppr:N:OBJECT`},
	} {
		r := spawn.Request{}
		for _, infos := range test.infos {
			r.Commands = append(r.Commands, spawn.Command{Argv: []string{"a"}, Count: 1, Info: infos})
		}
		req, _, err := MakeRequest(job.Request{Placement: asJob}, job.App{}, r, &HostPolicy{})
		if test.err != "" || err != nil {
			if err == nil || err.Error() != test.err {
				t.Errorf("%s: %v, want %s", name, err, test.err)
			}
			continue
		}
		got, want := req.Placement, test.want
		if got.Layout.Map.Text != want.Layout.Map.Text || got.Layout.Rank != want.Layout.Rank || got.Layout.Bind.Text != want.Layout.Bind.Text ||
			got.RoundRobin != want.RoundRobin || got.NoPin != want.NoPin || got.NoOversubscribe != want.NoOversubscribe {
			t.Errorf("%s: %+v, want %+v", name, got, want)
		}
	}
}
