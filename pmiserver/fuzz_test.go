package pmiserver

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"hash/maphash"
	"io"
	"reflect"
	"slices"
	"strings"
	"testing"
)

// FuzzFrame: however a stream is cut, the same lines come out of it, and no more
// is kept than a line.
func FuzzFrame(f *testing.F) {
	f.Add([]byte("cmd=init\n\n\x00cmd=barrier_in\ncmd="), uint8(3))
	f.Add([]byte("mcmd=spawn\nendcmd\nGET / HTTP"), uint8(1))
	f.Add(bytes.Repeat([]byte("cmd=put value=x\n"), 300), uint8(200))
	f.Add([]byte("    14cmd=job-getid;14    cmd=job-getid;cmd=init\n\x00000013cmd=finalize;"), uint8(2))
	f.Fuzz(func(t *testing.T, stream []byte, step uint8) {
		whole, errWhole := messages(stream, len(stream), step&1 != 0)
		parts, errParts := messages(stream, int(step)+1, step&1 != 0)
		if !slices.Equal(whole, parts) || errWhole != errParts {
			t.Errorf("in one: %q %v\nin parts: %q %v", whole, errWhole, parts, errParts)
		}
	})
}

// messages returns what is in a stream that comes in steps of n bytes.
func messages(stream []byte, n int, two bool) (out []string, err error) {
	f := frame{two: two}
	for len(stream) > 0 {
		k := copy(f.room(), stream[:min(n, len(stream))])
		stream = stream[k:]
		f.filled(k)
		for {
			line, err := f.next()
			if err != nil {
				return out, err
			}
			if line == nil {
				break
			}
			out = append(out, string(line))
		}
		if cap(f.buf) > 2*maxLine && !two {
			panic("the buffer grows without need")
		}
	}
	return out, nil
}

// FuzzParse: fields are parts of the line, and a tail is all that follows it.
func FuzzParse(f *testing.F) {
	f.Add("cmd=put kvsname=k0 key=x value=a b=c", uint8(0))
	f.Add("cmd=publish_name service=a b port=c port=d", uint8(1))
	f.Add("cmd= = == a= =b", uint8(2))
	f.Fuzz(func(t *testing.T, line string, which uint8) {
		tail := []string{"value", "port", "message"}[which%3]
		var a args
		a.parse([]byte(line), []string{tail})
		for _, fd := range a {
			if !strings.Contains(line, string(fd.key)+"="+string(fd.value)) {
				t.Errorf("%q=%q is no part of %q", fd.key, fd.value, line)
			}
		}
		if _, after, found := strings.Cut(line, " "+tail+"="); found && string(a.text(tail)) != after {
			t.Errorf("%s of %q = %q, want %q", tail, line, a.text(tail), after)
		}
	})
}

// FuzzParse2: what a sender escapes is what the reader has.
func FuzzParse2(f *testing.F) {
	f.Add("a", "host;0=x y;;end", "junk")
	f.Add("b", ";", ";=;;")
	f.Fuzz(func(t *testing.T, key, value, junk string) {
		var a args
		a.parse2([]byte(junk)) // must not harm
		if key == "" || key[0] == 0 || strings.ContainsAny(key, ";=") {
			return
		}
		body := append(appendEscaped([]byte("cmd=put;"+key+"="), []byte(value)), ";next=1;"...)
		a.parse2(body)
		want := value
		if key == "cmd" {
			want = "put"
		}
		if got := string(a.text(key)); got != want {
			t.Errorf("%q: got %q, want %q", body, got, want)
		}
	})
}

// FuzzBlob: what another node sends cannot do harm, and what can be read is
// written again the same.
func FuzzBlob(f *testing.F) {
	f.Add(appendPairs(nil, map[string][]byte{"a": []byte("1"), "b": bytes.Repeat([]byte("2"), 200)}))
	f.Add([]byte{})
	f.Add([]byte{0xff, 0xff, 0xff, 0xff, 0x0f, 1})
	f.Fuzz(func(t *testing.T, blob []byte) {
		seed := maphash.MakeSeed()
		l, err, took := layering(blob)
		if most := uint64(64<<10 + 16*len(blob)); took > most {
			t.Errorf("%d bytes took %d", len(blob), took)
		}
		if err != nil {
			return
		}
		want := make(map[string][]byte) // as a simpler reader has it
		for rest := blob; len(rest) > 0; {
			var key, value []byte
			key, value, rest, _ = cutPair(rest)
			want[string(key)] = value
		}
		again, err := newLayer(seed, [][]byte{appendPairs(nil, want)})
		if err != nil || again.count != len(want) || l.count != len(want) {
			t.Errorf("%d keys become %d, %d, %v", len(want), l.count, again.count, err)
		}
		for key, value := range l.all() {
			if !bytes.Equal(want[string(key)], value) {
				t.Errorf("%q is %q, want %q", key, value, want[string(key)])
			}
		}
	})
}

// FuzzServe: whatever a rank says, it gets well-formed lines, and the server
// lives on.
func FuzzServe(f *testing.F) {
	f.Add([]byte("cmd=init pmi_version=1\ncmd=put key=a value=b\ncmd=barrier_in\ncmd=get key=a\ncmd=getbyidx idx=0\n"))
	f.Add([]byte("cmd=init pmi_version=1\nmcmd=spawn\ntotspawns=2\nspawnssofar=1\nendcmd\ncmd=get_appnum\n"))
	f.Add([]byte("cmd=init pmi_version=1\nmcmd=spawn\nnprocs=1\nexecname=e\nargcnt=1\narg1=a\ntotspawns=1\nspawnssofar=1\nendcmd\n"))
	f.Add([]byte("cmd=init pmi_version=1\ncmd=publish_name service=a port=b\ncmd=lookup_name service=a\ncmd=finalize\n"))
	f.Add([]byte("cmd=init pmi_version=2\n    23cmd=fullinit;pmirank=0;    14cmd=kvs-fence;"))
	for name := range requests2 {
		body := "cmd=" + name + ";thrid=1;key=a;name=a;wait=TRUE;ring-left=l;ring-right=r;ncmds=1;value=b;;;port=c;subcmd=e;maxprocs=1;"
		f.Add(fmt.Appendf(nil, "cmd=init pmi_version=2\n    23cmd=fullinit;pmirank=0;%6d%s", len(body), body))
	}
	for name := range requests {
		f.Add([]byte("cmd=init pmi_version=1\ncmd=" + name + " idx=0 key=a service=a group=WORLD:1 value=b port=c\n"))
	}
	f.Fuzz(func(t *testing.T, said []byte) {
		s := New(Info{Name: "k0", Size: 1, Ranks: []int{0}}, nil)
		s.Hosts = func(context.Context) ([]Host, error) { return []Host{{"n0", []int{0}}}, nil }
		s.Names, s.Spawner = &NameTable{}, hasty{}
		var told bytes.Buffer
		s.Serve(t.Context(), 0, struct {
			io.Reader
			io.Writer
		}{bytes.NewReader(said), &told})
		if b := told.Bytes(); len(b) > 0 && b[len(b)-1] != '\n' && b[len(b)-1] != ';' {
			t.Errorf("an answer without end: %q", b)
		}
		if s.State(0) < Closed {
			t.Errorf("the rank is %v in the end", s.State(0))
		}
	})
}

// hasty starts everything at once, or nothing.
type hasty struct{}

func (hasty) Spawn(_ context.Context, r SpawnRequest) (string, []int, error) {
	if r.faulty() != "" {
		panic("handed out: " + r.String())
	}
	if len(r.Commands) > 1 {
		return "", nil, errors.New(r.String())
	}
	return "k1", []int{r.Commands[0].Count}, nil
}

// FuzzSpawn: both protocols bring a request as it was.
func FuzzSpawn(f *testing.F) {
	f.Add("/x/spawn", "a b", "wdir", "/scr", 2)
	f.Add("e", "", "foo", "b a=r;z", 1)
	f.Add(";;", "=;", "x;", ";=", 3)
	f.Fuzz(func(t *testing.T, program, arg, key, value string, count int) {
		want := SpawnRequest{
			Commands: []Command{
				{Argv: []string{program, arg}, Count: count, Info: []Pair{{key, value}}},
				{Argv: []string{program}, Count: 1},
			},
			Preputs: []Pair{{key, value}},
		}
		if all := program + arg + key + value; !strings.Contains(all, "\n") {
			if got := spawnByLines(t, want); !reflect.DeepEqual(got, want) {
				t.Errorf("PMI-1\n got %+v\nwant %+v", got, want)
			}
		}
		var a args
		a.parse2(spawnBody(want))
		if got, ok := a.spawn(); !ok || !reflect.DeepEqual(got, want) {
			t.Errorf("PMI-2\n got %+v\nwant %+v", got, want)
		}
	})
}

// spawnByLines has a request read as PMI-1 writes it.
func spawnByLines(t *testing.T, r SpawnRequest) SpawnRequest {
	var b spawnBlock
	for i, c := range r.Commands {
		b.segment = make(segment)
		add := func(key string, value any) { b.segment.add([]byte(key), fmt.Append(nil, value)) }
		add("nprocs", c.Count)
		add("execname", c.Argv[0])
		add("totspawns", len(r.Commands))
		add("spawnssofar", i+1)
		add("argcnt", len(c.Argv)-1)
		for n, arg := range c.Argv[1:] {
			add(fmt.Sprint("arg", n+1), arg)
		}
		addPairs(add, "preput_num", "preput_key_", "preput_val_", r.Preputs)
		addPairs(add, "info_num", "info_key_", "info_val_", c.Info)
		if last := b.end(); last != (i+1 == len(r.Commands)) {
			t.Errorf("segment %d is the last: %v", i, last)
		}
	}
	if b.bad {
		t.Errorf("%+v is refused", r)
	}
	return b.request
}

func addPairs(add func(string, any), count, key, value string, pairs []Pair) {
	add(count, len(pairs))
	for i, p := range pairs {
		add(fmt.Sprint(key, i), p.Key)
		add(fmt.Sprint(value, i), p.Value)
	}
}

// spawnBody writes a request as PMI-2 does.
func spawnBody(r SpawnRequest) []byte {
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

// FuzzDoor: whatever comes in, who does not know the ID stays outside, and who
// does is served.
func FuzzDoor(f *testing.F) {
	const id = 1234567890
	f.Add([]byte("cmd=initack pmiid=1234567890\ncmd=init pmi_version=1\n"))
	f.Add([]byte("cmd=init pmi_version=2\n    32cmd=fullinit;pmirank=1234567890;"))
	f.Add([]byte("\n\x00cmd=init pmi_version=1 pmi_subversion=1\n"))
	f.Add(bytes.Repeat([]byte("cmd=init pmi_version=2\n"), 300))
	f.Fuzz(func(t *testing.T, said []byte) {
		s := New(Info{Name: "k0", Size: 1, Ranks: []int{0}}, nil)
		d := &Door{NewID: func() int { return id }}
		d.Expect(s, 0)
		conn := &scripted{Reader: bytes.NewReader(said)}
		err := d.Serve(t.Context(), conn)
		if known := bytes.Contains(said, []byte("1234567890")); !known && !errors.Is(err, ErrStranger) {
			t.Errorf("%q came in: %v", said, err)
		}
		if entered := s.State(0) != Absent; entered == errors.Is(err, ErrStranger) {
			t.Errorf("%q: served: %v, and the end is %v", said, entered, err)
		}
		if !conn.closed {
			t.Error("the connection is left open")
		}
	})
}

type scripted struct {
	io.Reader
	bytes.Buffer
	closed bool
}

func (s *scripted) Read(b []byte) (int, error)  { return s.Reader.Read(b) }
func (s *scripted) Write(b []byte) (int, error) { return s.Buffer.Write(b) }
func (s *scripted) Close() error {
	s.closed = true
	return nil
}
