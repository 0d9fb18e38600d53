#!/bin/sh
# install.sh PROGRAM FOLDER: copy mpiexec to FOLDER/bin, link its names mpijob and aprun there, and write the manual pages and
# completions, which the program prints. "make install".
set -eu
program=$1
share=$2/share

mkdir -p "$2/bin" "$share/man/man1" "$share/bash-completion/completions" "$share/zsh/site-functions" "$share/fish/vendor_completions.d"
cp "$program" "$2/bin/mpiexec.new"
chmod 755 "$2/bin/mpiexec.new"
mv "$2/bin/mpiexec.new" "$2/bin/mpiexec" # jobs go on with the program that they were started with
"$program" --man >"$share/man/man1/mpiexec.1"
"$program" --completion bash >"$share/bash-completion/completions/mpiexec"
"$program" --completion zsh >"$share/zsh/site-functions/_mpiexec"
"$program" --completion fish >"$share/fish/vendor_completions.d/mpiexec.fish"
for name in mpijob aprun; do
	ln -sf mpiexec "$2/bin/$name"
	"$program" "--$name" --man >"$share/man/man1/$name.1"
	ln -sf mpiexec "$share/bash-completion/completions/$name" # bash and fish look for a file with the command's name
	ln -sf mpiexec.fish "$share/fish/vendor_completions.d/$name.fish"
done
