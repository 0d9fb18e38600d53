package pmiserver

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"remshell/pmiserver/spawn"
	"remshell/pmiserver/transcript"
)

// However a stream is split, a messageReader finds the same lines in it, and it buffers at most a
// line.
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

// messages returns the messages of a stream that arrives n bytes at a time.
func messages(stream []byte, n int, two bool) (out []string, err error) {
	f := messageReader{pmi2: two}
	for len(stream) > 0 {
		k := copy(f.readBuffer(), stream[:min(n, len(stream))])
		stream = stream[k:]
		f.addRead(k)
		for {
			line, err := f.nextMessage()
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

// recordedInput returns the input of rank 0 in each recorded conversation. It contains every request.
func recordedInput(t testing.TB) (all [][]byte) {
	files, err := filepath.Glob("../testdata/pmi/*.pmi")
	if err != nil || len(files) == 0 {
		t.Fatalf("no transcripts: %v", err)
	}
	for _, name := range files {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		cases, err := transcript.ReadCases(name, bytes.NewReader(text))
		if err != nil {
			t.Fatal(err)
		}
		for _, c := range cases {
			all = append(all, sentIn(c))
		}
	}
	return all
}

func sentIn(c transcript.Case) (stream []byte) {
	switch {
	case c.Job.PMI2:
		stream = []byte("cmd=init pmi_version=2\n    23cmd=fullinit;pmirank=0;")
	case !c.Job.Uninitialized:
		stream = []byte("cmd=init pmi_version=1\n")
	}
	for _, step := range c.Steps {
		if step.FromRank && step.Word == "" && step.Group == 0 && step.Rank == 0 {
			stream = append(stream, step.Bytes...)
		}
	}
	return stream
}

// Whatever a rank sends, it receives well-formed lines, and the server goes on.
func FuzzServe(f *testing.F) {
	f.Add([]byte("cmd=init pmi_version=1\ncmd=put key=a value=b\ncmd=barrier_in\ncmd=get key=a\ncmd=getbyidx idx=0\n"))
	f.Add([]byte("cmd=init pmi_version=1\nmcmd=spawn\ntotspawns=2\nspawnssofar=1\nendcmd\ncmd=get_appnum\n"))
	f.Add([]byte("cmd=init pmi_version=1\nmcmd=spawn\nnprocs=1\nexecname=e\nargcnt=1\narg1=a\ntotspawns=1\nspawnssofar=1\nendcmd\n"))
	f.Add([]byte("cmd=init pmi_version=1\ncmd=publish_name service=a port=b\ncmd=lookup_name service=a\ncmd=finalize\n"))
	f.Add([]byte("cmd=init pmi_version=2\n    23cmd=fullinit;pmirank=0;    14cmd=kvs-fence;"))
	for _, stream := range recordedInput(f) {
		f.Add(stream)
	}
	f.Fuzz(func(t *testing.T, input []byte) {
		s := New(Info{Name: "k0", Size: 1, Ranks: []int{0}}, nil)
		s.Hosts = func(context.Context) ([]string, []int, error) { return []string{"n0"}, []int{0}, nil }
		s.Names, s.Spawner = &NameTable{}, instantSpawner{}
		var replies bytes.Buffer
		s.Serve(t.Context(), 0, struct {
			io.Reader
			io.Writer
		}{bytes.NewReader(input), &replies})
		if b := replies.Bytes(); len(b) > 0 && b[len(b)-1] != '\n' && b[len(b)-1] != ';' {
			t.Errorf("an answer without end: %q", b)
		}
		if s.State(0) < Closed {
			t.Errorf("the rank is %v in the end", s.State(0))
		}
	})
}

// instantSpawner starts everything at once, or nothing.
type instantSpawner struct{}

func (instantSpawner) Spawn(_ context.Context, r spawn.Request) (string, []int, error) {
	if r.Problem() != "" {
		panic("handed out: " + r.String())
	}
	if len(r.Commands) > 1 {
		return "", nil, errors.New(r.String())
	}
	return "k1", []int{r.Commands[0].Count}, nil
}

// A client without a valid ID is always refused; a client with one is always served.
func FuzzListener(f *testing.F) {
	const id = 1234567890
	f.Add([]byte("cmd=initack pmiid=1234567890\ncmd=init pmi_version=1\n"))
	f.Add([]byte("cmd=init pmi_version=2\n    32cmd=fullinit;pmirank=1234567890;"))
	f.Add([]byte("\n\x00cmd=init pmi_version=1 pmi_subversion=1\n"))
	f.Add(bytes.Repeat([]byte("cmd=init pmi_version=2\n"), 300))
	f.Fuzz(func(t *testing.T, input []byte) {
		s := New(Info{Name: "k0", Size: 1, Ranks: []int{0}}, nil)
		d := &Listener{NewID: func() int { return id }}
		d.ExpectRank(s, 0)
		conn := &scripted{Reader: bytes.NewReader(input)}
		err := d.Serve(t.Context(), conn)
		if known := bytes.Contains(input, []byte("1234567890")); !known && !errors.Is(err, ErrNoRank) {
			t.Errorf("%q came in: %v", input, err)
		}
		if entered := s.State(0) != Absent; entered == errors.Is(err, ErrNoRank) {
			t.Errorf("%q: served: %v, and the end is %v", input, entered, err)
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
