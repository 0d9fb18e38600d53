package main

import (
	"bytes"
	"crypto/md5"
	"fmt"
	"regexp"
	"strings"
	"time"
)

/*
A Debian package is an archive of ar(1) with three members (deb(5)): the version of the
format, what dpkg has to know, and the files.

It stands beside mpich and openmpi-bin, which share /usr/bin/mpirun and, as its slave,
/usr/bin/mpiexec by update-alternatives, with the priorities 40 and 50. Ours is below
them: a program that was linked with Open MPI needs Open MPI's launcher, so nobody's
mpirun becomes ours unless there is no other or somebody says so:

	update-alternatives --set mpirun /usr/bin/mpirun.remshell
*/
type debian struct {
	version, arch string
	at            time.Time
	files         tree
}

const priority = 30

func (d debian) bytes() []byte {
	var b bytes.Buffer
	b.WriteString("!<arch>\n")
	d.member(&b, "debian-binary", []byte("2.0\n"))
	d.member(&b, "control.tar.gz", tarball(d.control(), d.at))
	d.member(&b, "data.tar.gz", tarball(dotted(d.files), d.at))
	return b.Bytes()
}

// member writes one file of an ar archive; those of odd size are followed by a line end.
func (d debian) member(b *bytes.Buffer, name string, data []byte) {
	fmt.Fprintf(b, "%-16s%-12d%-6d%-6d%-8s%-10d`\n", name, d.at.Unix(), 0, 0, "100644", len(data))
	b.Write(data)
	if len(data)%2 == 1 {
		b.WriteByte('\n')
	}
}

// dotted gives names the "./" with which dpkg-deb writes them.
func dotted(t tree) tree { return below(".", t) }

// control is what dpkg has to know.
func (d debian) control() tree {
	return dotted(tree{
		"control":  plain([]byte(d.description())),
		"md5sums":  plain([]byte(d.sums())),
		"postinst": program([]byte(d.postinst())),
		"prerm":    program([]byte(prerm)),
	})
}

func (d debian) description() string {
	size := 0
	for _, f := range d.files {
		size += (len(f.data) + 1023) / 1024
	}
	return fmt.Sprintf(`Package: remshell
Version: %s
Architecture: %s
Maintainer: Remshell <remshell@example.org>
Installed-Size: %d
Section: net
Priority: optional
Suggests: openssh-client, mpich
Description: mpiexec over SSH, without a daemon
 Starts MPI programs (MPICH and others that speak PMI-1 or PMI-2), and any other
 program, on many hosts over SSH. Nothing needs to be installed on the hosts.
`, d.version, d.arch, size)
}

func (d debian) sums() string {
	var b strings.Builder
	for _, name := range names(d.files) {
		if f := d.files[name]; f.link == "" && !f.folder {
			fmt.Fprintf(&b, "%x  %s\n", md5.Sum(f.data), name)
		}
	}
	return b.String()
}

// postinst offers our names beside those of the others. Completions and manual pages are
// slaves, so that they come and go with the name.
func (d debian) postinst() string {
	b := &strings.Builder{}
	fmt.Fprintf(b, `#!/bin/sh
set -e
case $1 in configure | abort-remove | abort-deconfigure | abort-upgrade)
	update-alternatives --install /usr/bin/mpirun mpirun /usr/bin/mpirun.remshell %d \
		--slave /usr/bin/mpiexec mpiexec /usr/bin/mpiexec.remshell`, priority)
	for _, s := range slaves(d.files) {
		fmt.Fprintf(b, " \\\n\t\t--slave %s %s %s", s[0], s[1], s[2])
	}
	b.WriteString("\n\t;;\nesac\n")
	return b.String()
}

// slaves are link, name and file of what goes with the name mpirun.
func slaves(files tree) (found [][3]string) {
	for _, s := range [][3]string{
		{"/usr/share/man/man1/mpiexec.1.gz", "mpiexec.1.gz", "usr/share/man/man1/mpiexec.remshell.1.gz"},
		{"/usr/share/man/man1/mpirun.1.gz", "mpirun.1.gz", "usr/share/man/man1/mpirun.remshell.1.gz"},
		{"/usr/share/bash-completion/completions/mpiexec", "mpiexec.bash", completion("bash-completion/completions/mpiexec")},
		{"/usr/share/zsh/vendor-completions/_mpiexec", "mpiexec.zsh", completion("zsh/site-functions/_mpiexec")},
		{"/usr/share/fish/vendor_completions.d/mpiexec.fish", "mpiexec.fish", completion("fish/vendor_completions.d/mpiexec.fish")},
	} {
		if _, there := files[s[2]]; there {
			s[2] = "/" + s[2]
			found = append(found, s)
		}
	}
	return found
}

const prerm = `#!/bin/sh
set -e
case $1 in remove | deconfigure)
	update-alternatives --remove mpirun /usr/bin/mpirun.remshell
	;;
esac
`

// debVersion is a version that dpkg takes and orders by time: a release is what its tag
// says; everything else comes before the first release (deb-version(7): ~ sorts first).
func debVersion(r release) string {
	version := strings.TrimPrefix(r.version, "v")
	if regexp.MustCompile(`^[0-9]+(\.[0-9]+)*$`).MatchString(version) {
		return version
	}
	rest := regexp.MustCompile(`[^A-Za-z0-9.]+`).ReplaceAllString(version, ".")
	return "0~" + r.at.Format("20060102150405") + "." + rest
}
