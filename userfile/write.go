package userfile

import (
	"io"
	"os"
	"path/filepath"
	"syscall"

	"golang.org/x/sys/unix"
)

// CheckWritable returns an error if this process could not write a file later. If replaced is true, it instead checks
// whether this process could replace the file.
func CheckWritable(name string, replaced bool) error {
	path, err := ResolveForWriting(name)
	if err != nil {
		return err
	}
	info, err := os.Stat(path)
	switch {
	case err == nil && info.IsDir():
		return &os.PathError{Op: "open", Path: name, Err: syscall.EISDIR}
	case err == nil && !info.Mode().IsRegular():
		return nil // a pipe, a device
	case err != nil || replaced:
		path = filepath.Dir(path)
	}
	if err := unix.Access(path, unix.W_OK); err != nil {
		return &os.PathError{Op: "open", Path: name, Err: err}
	}
	return nil
}

// WriteWhole writes a file so that a reader never sees an incomplete file. If name is a pipe or device,
// WriteWhole writes to it directly.
func WriteWhole(name string, write func(io.Writer) error) error {
	if info, err := os.Stat(name); err == nil && !info.Mode().IsRegular() {
		return Write(name, write)
	}
	return Replace(name, write)
}

// Write creates or truncates a file, and calls write to fill it.
func Write(name string, write func(io.Writer) error) error {
	f, err := Create(name)
	if err == nil {
		err = write(f)
	}
	if err == nil {
		err = f.Close()
	}
	return err
}

// Replace replaces a file by renaming a new file, so that a reader sees either the old or the new content. It calls
// write to produce the new content.
func Replace(name string, write func(io.Writer) error) error {
	name, err := ResolveForWriting(name)
	if err != nil {
		return err
	}
	f, err := os.CreateTemp(filepath.Dir(name), "."+filepath.Base(name)+".*")
	if err != nil {
		return err
	}
	defer os.Remove(f.Name()) // does nothing once the file is renamed
	if err = write(f); err == nil {
		err = f.Chmod(0o666 &^ os.FileMode(Umask()))
	}
	if closed := f.Close(); err == nil {
		err = closed
	}
	if err == nil {
		err = os.Rename(f.Name(), name)
	}
	return err
}

// Umask returns the umask of this process, which ranks inherit (rule ENV-8). The kernel returns the umask only
// when a new one is set, so Umask sets a umask and then restores the old one.
func Umask() int {
	mask := syscall.Umask(0o077) // a file created meanwhile is private
	syscall.Umask(mask)
	return mask
}
