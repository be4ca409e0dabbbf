#!/usr/bin/env bash
# The browser with its libraries and fonts in one folder, for machines that have neither a browser nor a network (a GPU
# node on which RL plays its episodes). Same processor family, glibc at least as new as here.
#
#   tools/pack_browser.sh browser && tar -cJf browser.tar.xz browser        # here, after make setup
#   tar -xJf browser.tar.xz && . browser/environment.sh && holotron doctor  # there
set -euo pipefail

out=${1:?usage: tools/pack_browser.sh FOLDER}
home=/usr/lib/chromium
program=$home/chromium-headless-shell
[ -x "$program" ] || { echo "no $program; install Debian's chromium-headless-shell first (make setup)" >&2; exit 1; }
[ ! -e "$out" ] || { echo "$out exists already; choose another folder or remove it" >&2; exit 1; }

mkdir -p "$out/lib" "$out/fonts"
cp "$program" "$home"/{*.pak,*.bin,icudtl.dat,libvk_swiftshader.so,vk_swiftshader_icd.json,libvulkan.so.1} "$out"
# The other machine's own C and C++ libraries stay in charge: two of them in one process do not get along.
ldd "$program" | awk '$3 ~ "^/" {print $3}' |
    grep -Ev '/(libc|libm|libdl|librt|libpthread|libresolv|libgcc_s|libstdc\+\+)\.so' | xargs cp -L -t "$out/lib"
cp -L "$(command -v fc-list)" "$out" # names the fonts there are: synthetic pages ask for it
# What is loaded by name: the certificate store of NSS.
cp -L /usr/lib/*-linux-gnu/{libsoftokn3,libfreebl3,libfreeblpriv3,libnssckbi}.so "$out/lib"
for family in liberation liberation2 noto dejavu; do
    [ ! -d "/usr/share/fonts/truetype/$family" ] || cp -rL "/usr/share/fonts/truetype/$family" "$out/fonts"
done
cp -rL /etc/fonts "$out/fontconfig"
sed -i '/<dir[ >]/d; s|</fontconfig>|<dir prefix="relative">../fonts</dir></fontconfig>|' \
    "$out/fontconfig/fonts.conf"
cat > "$out/environment.sh" <<'HERE'
# source me: the browser in this folder is the one that holotron starts
_here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
export HOLOTRON_CHROMIUM=$_here/chromium-headless-shell
export LD_LIBRARY_PATH=$_here/lib${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
export PATH=$PATH:$_here
export FONTCONFIG_FILE=$_here/fontconfig/fonts.conf FONTCONFIG_PATH=$_here/fontconfig
unset _here
HERE
echo "$out: $(du -sh "$out" | cut -f1); there:  . $(basename "$out")/environment.sh && holotron doctor"
