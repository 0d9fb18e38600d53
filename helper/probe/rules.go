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

// ReadRules reads the rules for jobs that this node's administrator has set in file. The result is nil if there is no
// file. It fails if the file does not belong to root or has an error; then no rank may run here.
func ReadRules(file string) (*config.AdminRules, error) {
	text, err := readRootFile(file)
	if text == nil || err != nil {
		return nil, err
	}
	return config.LoadAdminRules(file, *text, userIDs())
}

// ReadLimits reads the limits for jobs from a file of this node's administrator, under the same conditions as ReadRules.
func ReadLimits(file string) (limits.Map, error) {
	text, err := readRootFile(file)
	if text == nil || err != nil {
		return nil, err
	}
	return config.LoadLimits(file, *text)
}

// ReadAdministrators reads from this node's cluster file the users who may control jobs of others (rule
// SV-25). The file must belong to root. Users who are unknown on this node are left out.
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

// readRootFile reads a file that only root can have written. The result is nil if the file does not exist. It fails
// if another user can write it.
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
		return nil, fmt.Errorf("%s: is not a regular file", file)
	case st.Uid != 0:
		return nil, fmt.Errorf("%s: belongs to uid %d, must belong to root", file, st.Uid)
	case st.Mode&0o022 != 0:
		return nil, fmt.Errorf("%s: mode %04o: others than root may write to it", file, st.Mode&0o7777)
	}
	content, err := io.ReadAll(io.LimitReader(f, 1<<20))
	text := string(content)
	return &text, err
}

// maxRanks means that the number of ranks is not limited. It is the largest number that package wire can send.
const maxRanks = 1e6

// NodeRules returns the rules of this node's administrator for our user. nodeFile has the users and programs that are
// allowed, limitsFile the limits of a job. A file with an empty name is not read.
func NodeRules(nodeFile, limitsFile string) job.AdminRules {
	const unclear = "runs no jobs, since what its administrator allows is not clear: "
	result := job.AdminRules{MaxRanks: -1}
	rules, err := ReadRules(nodeFile)
	if err == nil && limitsFile != "" {
		_, err = ReadLimits(limitsFile)
	}
	switch {
	case err != nil:
		result.Forbidden, result.FileFault = unclear+err.Error(), true
	case rules != nil:
		groups, _ := os.Getgroups()
		result.Forbidden, result.MaxRanks = rules.ForbidReason(os.Geteuid(), append(groups, os.Getegid())), min(rules.SmallerMaxProcs(-1), maxRanks)
	}
	if rules != nil {
		for _, w := range rules.Warnings[:min(len(rules.Warnings), job.MaxWarnings)] {
			result.Warnings = append(result.Warnings, w.Error())
		}
	}
	return result
}
