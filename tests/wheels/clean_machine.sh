#!/usr/bin/env bash
# The wheel on a machine that has Python and no compiler: a fresh Debian, made by debootstrap and entered by chroot. What
# pip installs there is downloaded here. Takes root, debootstrap, and 3 GB for as long as it runs.
#
#   tests/wheels/clean_machine.sh dist/kungfu_tf-*_x86_64.whl [VERSION OF TENSORFLOW]
set -euo pipefail
cd "$(dirname "$0")/../.."
wheel=$1 tensorflow=${2:-2.21.0} suite=bookworm python=3.11

root=$(mktemp -d /var/tmp/kungfu-machine-XXXXXX)
trap 'rm -rf --one-file-system "$root"' EXIT

echo "== a fresh Debian, $suite"
debootstrap --variant=minbase --include=python3,python3-venv,dataset-fashion-mnist "$suite" "$root/machine" >/dev/null
machine=$root/machine

echo "== TensorFlow $tensorflow, what it needs, and $(basename "$wheel")"
platforms=$(for glibc in 17 24 27 28 31 34 35; do echo "--platform=manylinux_2_${glibc}_x86_64"; done)
mkdir "$machine/wheels"
# shellcheck disable=SC2086
.venv/tf-2.21/bin/python -m pip download --quiet --dest "$machine/wheels" --only-binary=:all: --python-version=$python \
  --platform=manylinux2014_x86_64 $platforms "tensorflow-cpu==$tensorflow" "$wheel"
cp -r examples "$machine/"

# Its mounts end with it.
unshare --mount --pid --fork bash -euo pipefail -s "$machine" <<'OUTSIDE'
mount -t proc proc "$1/proc"
mount -t tmpfs tmpfs "$1/dev/shm"
chroot "$1" /usr/bin/env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root LC_ALL=C.UTF-8 TF_CPP_MIN_LOG_LEVEL=2 \
  bash -euo pipefail -s <<'INSIDE'
for compiler in cc c++ gcc g++ clang clang++ ld make; do
  if command -v "$compiler"; then echo "there is a compiler" >&2; exit 1; fi
done
echo "== Debian $(cat /etc/debian_version), $(ldd --version | head -n 1), $(python3 --version), no compiler"
python3 -m venv /root/venv
PATH=/root/venv/bin:$PATH
pip install --quiet --no-index --find-links /wheels tensorflow-cpu kungfu_tf
python -m kungfu_tf.info | sed "/^Variables/,\$d"
echo "== the README's example with 2 peers"
kungfu-run -np 2 python /examples/keras_mnist.py --epochs 1 --steps 100
if [ -e /root/.cache/kungfu_tf ]; then echo "something was compiled" >&2; exit 1; fi
INSIDE
OUTSIDE
echo "== it trains"
