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

// A blob is the content of a staged file.
type blob struct{ io.ReaderAt }

func (blob) Checksum() (string, error) { return strings.Repeat("0", 64), nil }

// A start does not wait for a node that credits only single bytes, or none. It waits for one that receives
// at 10 KB/s.
func TestHowLongFilesAreStaged(t *testing.T) {
	const size = 40 * wire.FileChunkSize
	for _, test := range []struct {
		name  string
		bytes int           // bytes credited at once
		every time.Duration // interval between credits
		want  string        // text of the error; empty: staging succeeds
		most  time.Duration // limit for the whole staging
	}{
		{"one byte each second", 1, time.Second, "b: files were not staged within 1m0s", 5 * time.Minute},
		{"no byte each second", 0, time.Second, "b: files were not staged within 1m0s", 5 * time.Minute},
		{"12 KB each second", 12000, time.Second, "", 20 * time.Minute},
		{"all, and then nothing", wire.FileChunkSize, time.Millisecond, "b: files were not staged within 1m0s", 5 * time.Minute},
	} {
		synctest.Test(t, func(t *testing.T) {
			s := newFakeCluster(nil)
			s.Answer = func(c *wire.Conn, node string, m wire.Message) bool {
				switch m := m.(type) {
				case *wire.StageFiles:
					c.Send(&wire.MissingFiles{Files: []int{0}})
					if node == "b" {
						go dribble(t.Context(), c, test.bytes, test.every, size, test.want == "")
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

// dribble credits so many bytes at a time until size bytes are credited. At the end it reports success if
// staged is set.
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
