package reserve

import (
	"bytes"
	"context"
	"io"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"remshell/job"
	"remshell/wire"
)

// A blob is a file that is staged.
type blob struct{ io.ReaderAt }

func (blob) Checksum() (string, error) { return strings.Repeat("0", 64), nil }

// A node that takes a byte now and then, or says so of none, does not hold a start; one that takes what it gets at 10 KB/s is waited for.
func TestHowLongFilesAreStaged(t *testing.T) {
	const size = 40 * wire.FileChunkSize
	for _, test := range []struct {
		name  string
		takes int           // bytes at once
		every time.Duration // so often
		want  string        // error
		most  time.Duration // all of it
	}{
		{"one byte each second", 1, time.Second, "b: files were not staged within 1m0s", 5 * time.Minute},
		{"no byte each second", 0, time.Second, "b: files were not staged within 1m0s", 5 * time.Minute},
		{"12 KB each second", 12000, time.Second, "", 20 * time.Minute},
		{"all, and then nothing", wire.FileChunkSize, time.Millisecond, "b: files were not staged within 1m0s", 5 * time.Minute},
	} {
		synctest.Test(t, func(t *testing.T) {
			s := newCast(nil)
			s.Answer = func(c *wire.Conn, node string, m wire.Message) bool {
				switch m := m.(type) {
				case *wire.StageFiles:
					c.Send(&wire.MissingFiles{Files: []int{0}})
					if node == "b" {
						go dribble(t.Context(), c, test.takes, test.every, size, test.want == "")
					}
				case *wire.FileChunk:
					if node == "a" {
						c.Send(&wire.FileCredit{Bytes: len(m.Bytes)})
					}
					if node == "a" && s.CountReceived("a", "FileChunk") == size/wire.FileChunkSize {
						c.Send(&wire.StageResult{})
					}
				default:
					return false
				}
				return true
			}
			r := s.request(func(req *job.Request) {
				req.StagedFiles = []job.StagedFile{{Name: "file", Path: "/file", Size: size, Mode: 0o700}}
			}, "a", "b")
			r.env.FileContents = []FileContent{blob{bytes.NewReader(make([]byte, size))}}
			ctx, done := context.WithTimeout(t.Context(), time.Hour)
			defer done()
			began := time.Now()
			_, startBy, err := r.reservation.findPlace(ctx)
			if err == nil {
				_, err = r.stageFiles(ctx, startBy)
			}
			if took := time.Since(began); took > test.most || test.want == "" && err != nil || test.want != "" && (err == nil || err.Error() != test.want) {
				t.Errorf("%s: %v after %v, want %q", test.name, err, took, test.want)
			}
			for _, n := range r.hosts {
				n.Abandon()
			}
			done()
			synctest.Wait()
		})
	}
}

// dribble takes so many bytes at once until all are taken, and says at the end that all is there, if it may.
func dribble(ctx context.Context, c *wire.Conn, bytes int, every time.Duration, size int, staged bool) {
	for left := size; left > 0; left -= bytes {
		select {
		case <-time.After(every):
		case <-ctx.Done():
			return
		}
		if c.Send(&wire.FileCredit{Bytes: min(bytes, left)}) != nil {
			return
		}
	}
	if staged {
		c.Send(&wire.StageResult{})
	}
}
