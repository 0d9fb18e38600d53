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
MarkerFiles are the marker files of a session. They prove whether two nodes are one machine, without trusting either
helper (rule TRUST-6). A helper creates an empty file whose name contains a random mark from mpiexec, and the other
helper has to find it:

	n1: /dev/shm/remshell-TAG-MARK1      n2 reports MARK1 and MARK2: so it sees the files of n1
	n2: /dev/shm/remshell-TAG-MARK2      n1 reports both, too

Two helpers see the same directory of shared memory only if their ranks can share memory. A helper removes its files
when it ends. Files of a killed helper are removed an hour later by the next helper of the same user. By then no helper
looks for them: a file is read soon after it is created, and never again.
*/
type MarkerFiles []string // paths

const markerDir = "/dev/shm"

// markerMaxAge is the age from which a marker file is treated as left over. markerScanTimeout is how long
// reading the directory of marker files may take.
const (
	markerMaxAge      = time.Hour
	markerScanTimeout = time.Second
)

func markerPath(tag, mark string) string {
	return filepath.Join(markerDir, "remshell-"+tag+"-"+mark)
}

// Create creates a marker file and records it for Remove. If that fails, it returns the text of the error,
// and otherwise "".
func (m *MarkerFiles) Create(tag, mark string) string {
	if !isMarkerPart(tag) || !isMarkerPart(mark) {
		return "invalid mark"
	}
	removeOldMarkers(time.Now().Add(-markerMaxAge))
	name := markerPath(tag, mark)
	file, err := os.OpenFile(name, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return err.Error()
	}
	file.Close()
	*m = append(*m, name)
	return ""
}

// removeOldMarkers removes marker files of the current user that were created before the time oldest. It removes only
// empty files whose names are those of marker files.
func removeOldMarkers(oldest time.Time) {
	eachMarker(time.Now().Add(markerScanTimeout), func(tag, mark string) bool {
		name := markerPath(tag, mark)
		info, err := os.Lstat(name)
		if err != nil || !info.Mode().IsRegular() || info.Size() != 0 || !info.ModTime().Before(oldest) {
			return true
		}
		if st, ok := info.Sys().(*syscall.Stat_t); ok && int(st.Uid) == os.Getuid() {
			os.Remove(name)
		}
		return true
	})
}

// FindMarkers returns the marks in the marker files with a given tag, but at most limit marks.
func FindMarkers(tag string, limit int) (marks []string) {
	eachMarker(time.Now().Add(markerScanTimeout), func(of, mark string) bool {
		if of == tag {
			marks = append(marks, mark)
		}
		return len(marks) < limit
	})
	return marks
}

// eachMarker calls do with the tag and mark of each marker file, until do returns false or the deadline has
// passed. The deadline is needed because any user can create files in markerDir.
func eachMarker(deadline time.Time, do func(tag, mark string) bool) {
	dir, err := os.Open(markerDir)
	if err != nil {
		return
	}
	defer dir.Close()
	for time.Now().Before(deadline) {
		names, err := dir.Readdirnames(1000)
		for _, name := range names {
			rest, ours := strings.CutPrefix(name, "remshell-")
			tag, mark, _ := strings.Cut(rest, "-")
			if ours && isMarkerPart(tag) && isMarkerPart(mark) && !do(tag, mark) {
				return
			}
		}
		if err != nil {
			return
		}
	}
}

// isMarkerPart reports whether text can be a tag or mark in the name of a marker file.
func isMarkerPart(text string) bool {
	return text != "" && len(text) <= 64 && strings.Trim(text, "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ") == ""
}

// Remove removes all marker files of the session.
func (m *MarkerFiles) Remove() {
	for _, name := range *m {
		os.Remove(name)
	}
	*m = nil
}
