//go:build linux

package probe

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strconv"

	"golang.org/x/sys/unix"

	"remshell/config"
	"remshell/job"
	"remshell/limit"
)

// Rules reads from file what the administrator of this node says may run here; nil: nothing. A
// file that is not root's, or has a fault, is not believed: then nothing runs.
func Rules(file string) (*config.Rules, error) {
	text, err := rootsOwn(file)
	if text == nil || err != nil {
		return nil, err
	}
	return config.LoadNode(file, *text, accounts())
}

// Limits reads from file what the administrator of this node lets a job use at most; the same holds of it.
func Limits(file string) (limit.Bounds, error) {
	text, err := rootsOwn(file)
	if text == nil || err != nil {
		return nil, err
	}
	return config.LoadLimits(file, *text)
}

// Administrators reads from the cluster file of this node, which has to be root's, who may have a word
// with jobs of others (SV-25). A user whom this node does not know is none.
func Administrators(file string) (uids []int, err error) {
	text, err := rootsOwn(file)
	if text == nil || err != nil {
		return nil, err
	}
	ids := accounts()
	c, err := config.Load(file, *text, ids)
	if err != nil {
		return nil, err
	}
	for _, name := range c.Administrators {
		uid, err := strconv.Atoi(name)
		if err != nil {
			uid, err = ids.User(name)
		}
		if err == nil {
			uids = append(uids, uid)
		}
	}
	return uids, nil
}

// rootsOwn reads a file that nobody but root can have written; nil: it is not there.
func rootsOwn(file string) (*string, error) {
	f, err := os.OpenFile(file, os.O_RDONLY|unix.O_NONBLOCK, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer f.Close()
	var st unix.Stat_t
	if err := unix.Fstat(int(f.Fd()), &st); err != nil {
		return nil, err
	}
	switch {
	case st.Mode&unix.S_IFMT != unix.S_IFREG:
		return nil, fmt.Errorf("%s: is no plain file", file)
	case st.Uid != 0:
		return nil, fmt.Errorf("%s: belongs to uid %d, must be root's", file, st.Uid)
	case st.Mode&0o022 != 0:
		return nil, fmt.Errorf("%s: mode %04o: others than root may write to it", file, st.Mode&0o7777)
	}
	content, err := io.ReadAll(io.LimitReader(f, 1<<20))
	text := string(content)
	return &text, err
}

// mostRanks is a limit of ranks that is none: it is as many as is told of (package wire).
const mostRanks = 1e6

// RulesOf is what the files of this node's administrator say to our user: nodeFile who may run what here, limitsFile what a job may
// use. An empty name stands for a file that is not looked at.
func RulesOf(nodeFile, limitsFile string) job.NodeRules {
	const unclear = "runs no jobs, since what its administrator allows is not clear: "
	said := job.NodeRules{Most: -1}
	rules, err := Rules(nodeFile)
	if err == nil && limitsFile != "" {
		_, err = Limits(limitsFile)
	}
	switch {
	case err != nil:
		said.Barred, said.Faulty = unclear+err.Error(), true
	case rules != nil:
		groups, _ := os.Getgroups()
		said.Barred, said.Most = rules.Forbid(os.Geteuid(), append(groups, os.Getegid())), min(rules.Most(-1), mostRanks)
	}
	if rules != nil {
		for _, w := range rules.Warnings[:min(len(rules.Warnings), job.MaxWarnings)] {
			said.Warnings = append(said.Warnings, w.Error())
		}
	}
	return said
}
