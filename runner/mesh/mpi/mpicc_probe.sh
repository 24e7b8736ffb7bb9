#!/bin/sh
# mpicc_probe.sh prints, for each MPI of this machine that psgd can use, its name and its compiler: "openmpi=mpicc.openmpi". The names
# are those of packages: Debian's alternatives, the folders of Fedora and openSUSE, and whichever `mpicc` is in PATH.
set -u
found=
for compiler in mpicc.openmpi mpicc.mpich mpicc /usr/lib64/openmpi/bin/mpicc /usr/lib64/mpich/bin/mpicc /usr/lib64/mpi/gcc/openmpi*/bin/mpicc; do
    command -v "$compiler" >/dev/null 2>&1 || continue
    name=$(printf '#include <mpi.h>\n#ifdef OMPI_MAJOR_VERSION\npsgd: openmpi\n#elif defined MPICH_VERSION\npsgd: mpich\n#endif\n' |
        "$compiler" -E -P -x c - 2>/dev/null | tr -d ' ' | sed -n 's/^psgd://p')
    case " $found " in
    *" $name="*) continue ;;
    esac
    [ -z "$name" ] || found="$found $name=$compiler"
done
echo "${found# }"
