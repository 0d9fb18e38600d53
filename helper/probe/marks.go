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
type Marks []string // files

const marksDir = "/dev/shm"

// markAge is how old a word is that nobody looks for any more, and markTime for how long the directory is read.
const (
	markAge  = time.Hour
	markTime = time.Second
)

func markName(tag, word string) string {
	return filepath.Join(marksDir, "remshell-"+tag+"-"+word)
}

// Lay lays a word open for as long as the session lasts. What it returns is why it could not.
func (m *Marks) Lay(tag, word string) string {
	if !isMark(tag) || !isMark(word) {
		return "no word"
	}
	sweepMarks(time.Now().Add(-markAge))
	name := markName(tag, word)
	file, err := os.OpenFile(name, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return err.Error()
	}
	file.Close()
	*m = append(*m, name)
	return ""
}

// sweepMarks removes the words of our user that were laid before a time: empty files of a mark's name, and nothing else.
func sweepMarks(before time.Time) {
	eachMark(time.Now().Add(markTime), func(tag, word string) bool {
		name := markName(tag, word)
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

// SeekMarks lists the words under a tag, at most so many.
func SeekMarks(tag string, most int) (words []string) {
	eachMark(time.Now().Add(markTime), func(of, word string) bool {
		if of == tag {
			words = append(words, word)
		}
		return len(words) < most
	})
	return words
}

// eachMark calls do with the tag and the word of each mark, until it returns false or a deadline is over: any user can
// make files in that directory.
func eachMark(deadline time.Time, do func(tag, word string) bool) {
	dir, err := os.Open(marksDir)
	if err != nil {
		return
	}
	defer dir.Close()
	for time.Now().Before(deadline) {
		names, err := dir.Readdirnames(1000)
		for _, name := range names {
			rest, ours := strings.CutPrefix(name, "remshell-")
			tag, word, _ := strings.Cut(rest, "-")
			if ours && isMark(tag) && isMark(word) && !do(tag, word) {
				return
			}
		}
		if err != nil {
			return
		}
	}
}

// isMark reports whether a word can be a part of a name of a mark.
func isMark(word string) bool {
	return word != "" && len(word) <= 64 && strings.Trim(word, "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ") == ""
}

// Remove takes all words away.
func (m *Marks) Remove() {
	for _, name := range *m {
		os.Remove(name)
	}
	*m = nil
}
