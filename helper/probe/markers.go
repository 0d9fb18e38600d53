//go:build linux

package probe

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

/*
Whether two names are one machine is shown, not said (TRUST-6). One helper lays a word open
that only mpiexec and it know, as the name of an empty file, and the other one has to find it:

	n1: /dev/shm/remshell-TAG-WORD1      n2 says WORD1 and WORD2: so it sees what n1 sees
	n2: /dev/shm/remshell-TAG-WORD2      n1 says them, too

What is in the directory of shared memory, only processes see whose ranks can share memory. A helper takes its words away when
it ends. Those of one that was killed are taken by the next of the same user that lays some, an hour later: a word is looked for
as soon as it lies, and never again.
*/
type MarkerFiles []string // files

const markerDir = "/dev/shm"

// markerMaxAge is how old a word is that nobody looks for any more, and markTime for how long the directory is read.
const (
	markerMaxAge      = time.Hour
	markerScanTimeout = time.Second
)

func markerPath(tag, word string) string {
	return filepath.Join(markerDir, "remshell-"+tag+"-"+word)
}

// Create lays a word open for as long as the session lasts. What it returns is why it could not.
func (m *MarkerFiles) Create(tag, word string) string {
	if !isMarkerPart(tag) || !isMarkerPart(word) {
		return "no word"
	}
	removeOldMarkers(time.Now().Add(-markerMaxAge))
	name := markerPath(tag, word)
	file, err := os.OpenFile(name, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return err.Error()
	}
	file.Close()
	*m = append(*m, name)
	return ""
}

// removeOldMarkers removes the words of our user that were laid before a time: empty files of a mark's name, and nothing else.
func removeOldMarkers(before time.Time) {
	eachMarker(time.Now().Add(markerScanTimeout), func(tag, word string) bool {
		name := markerPath(tag, word)
		info, err := os.Lstat(name)
		if err != nil || !info.Mode().IsRegular() || info.Size() != 0 || !info.ModTime().Before(before) {
			return true
		}
		if st, ok := info.Sys().(*syscall.Stat_t); ok && int(st.Uid) == os.Getuid() {
			os.Remove(name)
		}
		return true
	})
}

// FindMarkers lists the words under a tag, at most so many.
func FindMarkers(tag string, most int) (words []string) {
	eachMarker(time.Now().Add(markerScanTimeout), func(of, word string) bool {
		if of == tag {
			words = append(words, word)
		}
		return len(words) < most
	})
	return words
}

// eachMarker calls do with the tag and the word of each mark, until it returns false or a deadline is over: any user can
// make files in that directory.
func eachMarker(deadline time.Time, do func(tag, word string) bool) {
	dir, err := os.Open(markerDir)
	if err != nil {
		return
	}
	defer dir.Close()
	for time.Now().Before(deadline) {
		names, err := dir.Readdirnames(1000)
		for _, name := range names {
			rest, ours := strings.CutPrefix(name, "remshell-")
			tag, word, _ := strings.Cut(rest, "-")
			if ours && isMarkerPart(tag) && isMarkerPart(word) && !do(tag, word) {
				return
			}
		}
		if err != nil {
			return
		}
	}
}

// isMarkerPart reports whether a word can be a part of a name of a mark.
func isMarkerPart(word string) bool {
	return word != "" && len(word) <= 64 && strings.Trim(word, "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ") == ""
}

// Remove takes all words away.
func (m *MarkerFiles) Remove() {
	for _, name := range *m {
		os.Remove(name)
	}
	*m = nil
}
