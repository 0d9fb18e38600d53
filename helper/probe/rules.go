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
	"remshell/limits"
)

// ReadRules reads from file what the administrator of this node says may run here; nil: nothing. A
// file that is not root's, or has a fault, is not believed: then nothing runs.
func ReadRules(file string) (*config.AdminRules, error) {
	text, err := readRootFile(file)
	if text == nil || err != nil {
		return nil, err
	}
	return config.LoadAdminRules(file, *text, userIDs())
}

// ReadLimits reads from file what the administrator of this node lets a job use at most; the same holds of it.
func ReadLimits(file string) (limits.Map, error) {
	text, err := readRootFile(file)
	if text == nil || err != nil {
		return nil, err
	}
	return config.LoadLimits(file, *text)
}

// ReadAdministrators reads from the cluster file of this node, which has to be root's, who may have a word
// with jobs of others (SV-25). A user whom this node does not know is none.
func ReadAdministrators(file string) (uids []int, err error) {
	text, err := readRootFile(file)
	if text == nil || err != nil {
		return nil, err
	}
	ids := userIDs()
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

// readRootFile reads a file that nobody but root can have written; nil: it is not there.
func readRootFile(file string) (*string, error) {
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

// maxRanks is a limit of ranks that is none: it is as many as is told of (package wire).
const maxRanks = 1e6

// NodeRules is what the files of this node's administrator say to our user: nodeFile who may run what here, limitsFile what a job may
// use. An empty name stands for a file that is not looked at.
func NodeRules(nodeFile, limitsFile string) job.AdminRules {
	const unclear = "runs no jobs, since what its administrator allows is not clear: "
	said := job.AdminRules{MaxRanks: -1}
	rules, err := ReadRules(nodeFile)
	if err == nil && limitsFile != "" {
		_, err = ReadLimits(limitsFile)
	}
	switch {
	case err != nil:
		said.Forbidden, said.FileFault = unclear+err.Error(), true
	case rules != nil:
		groups, _ := os.Getgroups()
		said.Forbidden, said.MaxRanks = rules.ForbidReason(os.Geteuid(), append(groups, os.Getegid())), min(rules.SmallerMaxProcs(-1), maxRanks)
	}
	if rules != nil {
		for _, w := range rules.Warnings[:min(len(rules.Warnings), job.MaxWarnings)] {
			said.Warnings = append(said.Warnings, w.Error())
		}
	}
	return said
}
