package pmi2

import (
	"fmt"
	"reflect"
	"strings"
	"testing"

	"remshell/pmiserver/pmiversion"
	"remshell/pmiserver/spawn"
)

// All clients can read all codes.
func TestManyCodes(t *testing.T) {
	codes := make([]int, 600)
	codes[599] = 1
	if got := string(spawnReply([]byte("      cmd=spawn-response;"), spawn.Result{Codes: codes})); !strings.Contains(got, ";nerrs=1;errcodes=0,0,") {
		t.Errorf("got %q", got)
	}
}

// A parsed request equals the one that was sent.
func FuzzSpawn(f *testing.F) {
	f.Add("/x/spawn", "a b", "wdir", "/scr", 2)
	f.Add("e", "", "foo", "b a=r;z", 1)
	f.Add(";;", "=;", "x;", ";=", 3)
	f.Fuzz(func(t *testing.T, program, arg, key, value string, count int) {
		want := spawn.Request{
			Commands: []spawn.Command{
				{Argv: []string{program, arg}, Count: count, Info: []spawn.Pair{{Key: key, Value: value}}},
				{Argv: []string{program}, Count: 1},
			},
			Preputs: []spawn.Pair{{Key: key, Value: value}},
		}
		var fields pmiversion.Fields
		Parse(&fields, inBody(want))
		if got, ok := parseSpawn(fields); !ok || !reflect.DeepEqual(got, want) {
			t.Errorf("\n got %+v\nwant %+v", got, want)
		}
	})
}

// inBody writes a request as a client does.
func inBody(r spawn.Request) []byte {
	var body []byte
	add := func(key string, value any) {
		body = append(appendEscaped(append(body, key+"="...), fmt.Append(nil, value)), ';')
	}
	add("cmd", "spawn")
	add("ncmds", len(r.Commands))
	addPairs(add, "preputcount", "ppkey", "ppval", r.Preputs)
	for _, c := range r.Commands {
		add("subcmd", c.Argv[0])
		add("maxprocs", c.Count)
		add("argc", len(c.Argv)-1)
		for n, arg := range c.Argv[1:] {
			add(fmt.Sprint("argv", n), arg)
		}
		addPairs(add, "infokeycount", "infokey", "infoval", c.Info)
	}
	return body
}

func addPairs(add func(string, any), count, key, value string, pairs []spawn.Pair) {
	add(count, len(pairs))
	for i, p := range pairs {
		add(fmt.Sprint(key, i), p.Key)
		add(fmt.Sprint(value, i), p.Value)
	}
}
