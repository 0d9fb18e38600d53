package cli

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"

	"remshell/cli/option"
	"remshell/cli/request"
	"remshell/job"
	"remshell/launch"
	"remshell/launch/reserve"
	"remshell/usererr"
)

// A stagedFileSet holds the files that a job stages, open. So the file that is sent is the one that was checked, even
// if another file gets its name.
type stagedFileSet struct {
	staged   []job.StagedFile
	contents []reserve.FileContent
	files    []*os.File
}

func (h *stagedFileSet) closeAll() {
	for _, f := range h.files {
		f.Close()
	}
}

// openStagedFiles opens the files that a command line stages. It returns the errors of all files joined.
func openStagedFiles(line option.Line, local request.Localhost, path string) (*stagedFileSet, error) {
	h := &stagedFileSet{}
	var faults []error
	for _, name := range stagedFileNames(line, local, path) {
		if err := h.addFile(name, local.Dir); err != nil {
			faults = append(faults, err)
		}
	}
	if len(h.staged) > job.MaxStagedFiles {
		faults = append(faults, &usererr.Error{Text: fmt.Sprintf("--stage: %d files; at most %d", len(h.staged), job.MaxStagedFiles), Remedy: "pack them into one, with tar"})
	}
	if len(faults) > 0 {
		h.closeAll()
		return nil, errors.Join(faults...)
	}
	return h, nil
}

// stagedFileNames returns the files that --stage and its variants name. path is the PATH in which programs are
// searched.
func stagedFileNames(line option.Line, local request.Localhost, path string) []string {
	names := line.Job.Stage
	for _, list := range line.Job.StageFiles {
		names = append(names, strings.Split(list, ",")...)
	}
	if line.Job.StageProg {
		for _, s := range line.Apps {
			names = append(names, programFile(s, line.Job, local, path))
		}
	}
	return names
}

// programFile returns the file of an app context's program on this machine, or just its name if it is not found.
func programFile(s option.AppContext, j option.JobOptions, local request.Localhost, path string) string {
	if strings.Contains(s.Program, "/") {
		return s.Program
	}
	for _, list := range []string{s.Path, path} {
		for _, dir := range filepath.SplitList(list) {
			file := filepath.Join(dir, s.Program)
			if !filepath.IsAbs(file) {
				file = filepath.Join(local.Dir, file)
			}
			if info, err := os.Stat(file); err == nil && info.Mode().IsRegular() && info.Mode()&0o111 != 0 {
				return file
			}
		}
	}
	return s.Program
}

// addFile opens a file and adds it, unless it was added before. Opening a pipe does not block.
func (h *stagedFileSet) addFile(name, dir string) error {
	path := name
	if !filepath.IsAbs(path) {
		path = filepath.Join(dir, path)
	}
	path = filepath.Clean(path)
	for _, p := range h.staged {
		if p.Path == path {
			return nil
		}
		if p.Name == filepath.Base(path) {
			return &usererr.Error{Text: fmt.Sprintf("--stage %s: %s has the same name, and both go to one folder", name, p.Path), Remedy: "rename one"}
		}
	}
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return fmt.Errorf("--stage %s: %w", name, withoutPath(err))
	}
	info, err := f.Stat()
	switch {
	case err != nil:
	case info.IsDir():
		err = &usererr.Error{Text: fmt.Sprintf("--stage %s: is a directory", name), Remedy: "name its files, or pack it with tar"}
	case !info.Mode().IsRegular():
		err = &usererr.Error{Text: fmt.Sprintf("--stage %s: is no plain file", name)}
	}
	if err != nil {
		f.Close()
		return err
	}
	h.files = append(h.files, f)
	h.staged = append(h.staged, job.StagedFile{Name: filepath.Base(path), Path: path, Size: info.Size(), Mode: int(info.Mode().Perm())&0o700 | 0o400})
	h.contents = append(h.contents, hashedFile{f, sync.OnceValues(func() (string, error) { return hashFile(f, info.Size()) })})
	return nil
}

// withoutPath returns the cause of an fs.PathError, for messages that name the file themselves.
func withoutPath(err error) error {
	var path *fs.PathError
	if errors.As(err, &path) {
		return path.Err
	}
	return err
}

// A hashedFile is an open file and its hash, computed once.
type hashedFile struct {
	*os.File
	hash func() (string, error)
}

func (c hashedFile) Checksum() (string, error) { return c.hash() }

// hashFile returns the SHA-256 of a file in hexadecimal. It fails if the file is not size bytes long.
func hashFile(f *os.File, size int64) (string, error) {
	h := sha256.New()
	n, err := io.Copy(h, io.NewSectionReader(f, 0, size+1))
	switch {
	case err != nil:
		return "", withoutPath(err)
	case n != size:
		return "", fmt.Errorf("it was %d bytes, and is not; somebody writes to it", size)
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}

// attachTo adds the files to a request. It fails if a program is among them and is not executable.
func (h *stagedFileSet) attachTo(req *job.Request, dir string) error {
	req.StagedFiles = h.staged
	for i := range req.Apps {
		app := &req.Apps[i]
		p, ok := job.FindStagedFile(app.Argv[0], h.staged, dir, app.Dir)
		if ok && !p.IsExecutable() {
			return &usererr.Error{Text: fmt.Sprintf("program %s: permission denied", p.Path),
				Remedy: "make it executable: chmod +x " + option.ShellQuote(p.Path), Code: job.ExitCannotRun}
		}
		app.StagedFile = p.Name
	}
	return nil
}

// attachFiles adds to the request the files that its command line or the saved job stages.
func (c *invocation) attachFiles() (*stagedFileSet, error) {
	if c.line.Job.Resume != "" {
		return c.openSavedFiles()
	}
	return attachStagedFiles(c.line, c.inputs.Local, c.sys, &c.req, &c.env)
}

// attachStagedFiles adds to a request the files that its command line stages.
func attachStagedFiles(line option.Line, local request.Localhost, sys System, req *job.Request, env *launch.Env) (*stagedFileSet, error) {
	if len(line.Job.Stage) == 0 && len(line.Job.StageFiles) == 0 && !line.Job.StageProg {
		return &stagedFileSet{}, nil
	}
	h, err := openStagedFiles(line, local, cmp.Or(sys.getenv("PATH"), job.DefaultPath))
	if err != nil {
		return nil, err
	}
	env.FileContents = h.contents
	if err := h.attachTo(req, local.Dir); err != nil {
		h.closeAll()
		return nil, err
	}
	return h, nil
}

// startHashing computes the hashes of all files if there are remote nodes. It is called while the hosts are being
// reached.
func (h *stagedFileSet) startHashing(nodes []job.NodeDef) {
	if slices.ContainsFunc(nodes, func(n job.NodeDef) bool { return !n.Local }) {
		for _, c := range h.contents {
			c.Checksum()
		}
	}
}
