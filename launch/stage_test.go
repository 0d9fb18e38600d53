//go:build linux

package launch_test

import (
	"bytes"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"strings"
	"testing"

	"remshell/job"
	"remshell/usererr"
	"remshell/wire"
)

// A bale is what is in a parcel: so much of it is there, and this is said to be its hash.
type bale struct {
	io.ReaderAt
	sum string
	err error
}

func (b bale) Checksum() (string, error) { return b.sum, b.err }

// newBale is a parcel of a job.
func (r *run) newBale(name string, text []byte) *bale {
	sum := sha256.Sum256(text)
	b := &bale{ReaderAt: bytes.NewReader(text), sum: hex.EncodeToString(sum[:])}
	r.req.StagedFiles = append(r.req.StagedFiles, job.StagedFile{Name: name, Path: "/no/where/" + name, Size: int64(len(text)), Mode: 0o700})
	r.cargo = append(r.cargo, b)
	return b
}

// Parcels of all sizes come to all nodes as they are, packed or not, to so many that it pays
// and to so few that it does not; and a program among them is started.
func TestParcelsArrive(t *testing.T) {
	for _, nodes := range [][]string{{"a"}, {"a", "b", "c", "d"}} {
		r := newRun(len(nodes), "", nodes...)
		noise := make([]byte, 3*wire.FileChunkSize+1)
		rand.Read(noise)
		want := ""
		for name, text := range map[string][]byte{
			"noise": noise, "empty": nil, "one": []byte("x"), "piece": noise[:wire.FileChunkSize],
			"window": bytes.Repeat([]byte("words and words "), wire.StageWindow/8),
		} {
			b := r.newBale(name, text)
			want += b.sum + "  " + name + "\n"
		}
		r.newBale("program", []byte("#!/bin/sh\ncd $MPIEXEC_STAGE_DIR && sha256sum -c --quiet sums && echo as they are\n"))
		r.newBale("sums", []byte(want))
		r.req.Apps[0].Argv, r.req.Apps[0].StagedFile = []string{"./program"}, "program"
		result, err := r.do(t)
		if err != nil || result.Code != 0 || r.err.String() != "" || r.out.String() != strings.Repeat("as they are\n", len(nodes)) {
			t.Errorf("code %d, %v, stdout %q, stderr %q", result.Code, err, r.out.String(), r.err.String())
		}
	}
}

// What cannot be read, or is not what it was, keeps the job from starting, in a word.
func TestParcelsThatChange(t *testing.T) {
	for what, spoil := range map[string]func(*bale){
		"it became shorter while it was sent": func(b *bale) { b.ReaderAt = strings.NewReader("sh") },
		"it changed while it was sent":        func(b *bale) { b.ReaderAt = strings.NewReader("other") },
		"cannot be read":                      func(b *bale) { b.err = errors.New("cannot be read") },
	} {
		r := newRun(2, "echo it runs", "a", "b")
		spoil(r.newBale("file", []byte("known")))
		result, err := r.do(t)
		var start *usererr.Error
		if !errors.As(err, &start) || start.Code != job.ExitInternal || !strings.Contains(err.Error(), what) || r.out.String() != "" {
			t.Errorf("%s: code %d, %v, stdout %q", what, result.Code, err, r.out.String())
		}
	}
}
