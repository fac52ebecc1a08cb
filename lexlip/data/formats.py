"""The formats of pictures that are decoded, and how their files are named."""

ENDINGS = {
    "JPEG": (".jpg", ".jpeg", ".jpe", ".jfif", ".jfi", ".jif", ".pjpeg", ".pjp", ".mpo", ".insp"),
    "PNG": (".png", ".apng"),
    "WEBP": (".webp",),
    "GIF": (".gif",),
    "BMP": (".bmp",),
    "DIB": (".dib",),
    "TIFF": (".tif", ".tiff"),
    "AVIF": (".avif", ".avifs"),
    "HEIF": (".heic", ".heif", ".hif", ".heics", ".heifs"),
    "JPEG2000": (".jp2", ".j2k", ".j2c", ".jpc", ".jpf", ".jpx"),
    "PPM": (".ppm", ".pgm", ".pbm", ".pnm", ".pfm"),
    "PCX": (".pcx",),
    "TGA": (".tga", ".icb", ".vda", ".vst"),
}
"""By Pillow's names of the formats, in the order in which they are tried: last a TGA, which has no mark.

None of them starts a program, as EPS does, or shows a page, as PDF does.
"""

READER = 1  # raised when more can be decoded: photos that could not be read are then tried again

SUFFIXES = tuple(ending for endings in ENDINGS.values() for ending in endings)
