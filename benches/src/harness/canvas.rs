//! A picture's file: SVG, or PNG where the name ends so.
//!
//! Letters of a PNG are those of DejaVu Sans, which is in the program, so that it needs no font of
//! the system. In an SVG they are the reader's; the same font says how wide they are about.
//!
//! Rejected: to make PNG of the SVG. A renderer for all of SVG takes several times as long to build
//! as all of this.

use anyhow::{Context, Result, anyhow};
use plotters::coord::Shift;
use plotters::prelude::{BitMapBackend, DrawingArea, IntoDrawingArea, SVGBackend};
use plotters::style::{FontStyle, register_font};
use plotters_backend::{
    BackendColor, BackendCoord, BackendStyle, BackendTextStyle, DrawingBackend, DrawingErrorKind,
};
use std::fmt::{self, Display};
use std::fs::File;
use std::io::BufWriter;
use std::path::Path;
use std::sync::Once;

/// The drawing area of a picture.
pub(crate) type Area<'a> = DrawingArea<Canvas<'a>, Shift>;

/// One of two backends of plotters.
pub(crate) enum Canvas<'a> {
    Svg(SVGBackend<'a>),
    Pixels(BitMapBackend<'a>),
}

/// The error of either.
#[derive(Debug)]
pub(crate) struct Failure(String);

impl Display for Failure {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        to.write_str(&self.0)
    }
}

impl std::error::Error for Failure {}

/// Whether a file of this name is a PNG.
pub fn is_png(file: &Path) -> bool {
    let ending = file.extension();
    ending.is_some_and(|ending| ending.eq_ignore_ascii_case("png"))
}

/// Has a picture of this size drawn into a file.
pub(crate) fn draw(
    file: &Path,
    size: (u32, u32),
    draw: impl FnOnce(&Area<'_>) -> Result<()>,
) -> Result<()> {
    static FONT: Once = Once::new();
    FONT.call_once(|| {
        // It is a font: a test draws with it.
        let _ = register_font("sans-serif", FontStyle::Normal, dejavu::sans::regular());
    });
    let drawn = if is_png(file) {
        let mut pixels = vec![0; 3 * size.0 as usize * size.1 as usize];
        let backend = Canvas::Pixels(BitMapBackend::with_buffer(&mut pixels, size));
        let painted = draw(&backend.into_drawing_area());
        painted.and_then(|()| encode(file, size, &pixels))
    } else {
        draw(&Canvas::Svg(SVGBackend::new(file, size)).into_drawing_area())
    };
    drawn.map_err(|error| anyhow!("cannot write {}: {error:#}", file.display()))
}

fn encode(file: &Path, (width, height): (u32, u32), pixels: &[u8]) -> Result<()> {
    let mut encoder = png::Encoder::new(BufWriter::new(File::create(file)?), width, height);
    encoder.set_color(png::ColorType::Rgb);
    let mut writer = encoder.write_header()?;
    writer.write_image_data(pixels)?;
    writer.finish().context("its end")
}

type Drawn<T> = Result<T, DrawingErrorKind<Failure>>;

fn one<T, E: std::error::Error + Send + Sync>(result: Result<T, DrawingErrorKind<E>>) -> Drawn<T> {
    result.map_err(|error| match error {
        DrawingErrorKind::DrawingError(error) => {
            DrawingErrorKind::DrawingError(Failure(error.to_string()))
        }
        DrawingErrorKind::FontError(error) => DrawingErrorKind::FontError(error),
    })
}

macro_rules! either {
    ($self:ident, $backend:ident => $call:expr) => {
        match $self {
            Self::Svg($backend) => one($call),
            Self::Pixels($backend) => one($call),
        }
    };
}

/// Every call goes to the backend that it is: each has its own way of drawing a circle.
impl DrawingBackend for Canvas<'_> {
    type ErrorType = Failure;

    fn get_size(&self) -> (u32, u32) {
        match self {
            Self::Svg(backend) => backend.get_size(),
            Self::Pixels(backend) => backend.get_size(),
        }
    }

    fn ensure_prepared(&mut self) -> Drawn<()> {
        either!(self, backend => backend.ensure_prepared())
    }

    fn present(&mut self) -> Drawn<()> {
        either!(self, backend => backend.present())
    }

    fn draw_pixel(&mut self, point: BackendCoord, color: BackendColor) -> Drawn<()> {
        either!(self, backend => backend.draw_pixel(point, color))
    }

    fn draw_line<S: BackendStyle>(
        &mut self,
        from: BackendCoord,
        to: BackendCoord,
        style: &S,
    ) -> Drawn<()> {
        either!(self, backend => backend.draw_line(from, to, style))
    }

    fn draw_rect<S: BackendStyle>(
        &mut self,
        from: BackendCoord,
        to: BackendCoord,
        style: &S,
        fill: bool,
    ) -> Drawn<()> {
        either!(self, backend => backend.draw_rect(from, to, style, fill))
    }

    fn draw_path<S: BackendStyle, I: IntoIterator<Item = BackendCoord>>(
        &mut self,
        path: I,
        style: &S,
    ) -> Drawn<()> {
        either!(self, backend => backend.draw_path(path, style))
    }

    fn draw_circle<S: BackendStyle>(
        &mut self,
        center: BackendCoord,
        radius: u32,
        style: &S,
        fill: bool,
    ) -> Drawn<()> {
        either!(self, backend => backend.draw_circle(center, radius, style, fill))
    }

    fn fill_polygon<S: BackendStyle, I: IntoIterator<Item = BackendCoord>>(
        &mut self,
        points: I,
        style: &S,
    ) -> Drawn<()> {
        either!(self, backend => backend.fill_polygon(points, style))
    }

    fn draw_text<S: BackendTextStyle>(
        &mut self,
        text: &str,
        style: &S,
        place: BackendCoord,
    ) -> Drawn<()> {
        either!(self, backend => backend.draw_text(text, style, place))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use plotters::prelude::*;
    use std::fs;

    fn drawn(name: &str) -> Vec<u8> {
        let name = format!("umcg-canvas-{}-{name}", std::process::id());
        let file = std::env::temp_dir().join(name);
        let paint = |area: &Area<'_>| -> Result<()> {
            area.fill(&WHITE)?;
            area.draw(&Circle::new((20, 20), 5, RED.filled()))?;
            let style = ("sans-serif", 20).into_font().color(&BLACK);
            area.draw(&Text::new("letters", (40, 10), style))?;
            Ok(area.present()?)
        };
        draw(&file, (200, 40), paint).unwrap();
        let bytes = fs::read(&file).unwrap();
        fs::remove_file(&file).unwrap();
        bytes
    }

    #[test]
    fn the_name_says_what_a_file_is() {
        let text = String::from_utf8(drawn("x.svg")).unwrap();
        assert!(
            text.starts_with("<svg") && text.contains("letters"),
            "{text}"
        );
        let bytes = drawn("x.PNG");
        let decoder = png::Decoder::new(std::io::Cursor::new(&bytes));
        let mut reader = decoder.read_info().unwrap();
        let mut pixels = vec![0; reader.output_buffer_size().unwrap()];
        reader.next_frame(&mut pixels).unwrap();
        assert_eq!((reader.info().width, reader.info().height), (200, 40));
        let at = |x: usize, y: usize| &pixels[3 * (200 * y + x)..][..3];
        assert_eq!((at(20, 20), at(0, 0)), (&[255, 0, 0][..], &[255; 3][..]));
        let is_dark = |pixel: &&[u8]| pixel.iter().all(|part| *part < 100);
        let letters = (10..35).flat_map(|y| (40..200).map(move |x| (x, y)));
        let dark = letters.map(|(x, y)| at(x, y)).filter(is_dark).count();
        assert!(dark > 50, "letters have {dark} dark pixels");
    }

    #[test]
    fn a_file_that_cannot_be_written_is_named() {
        for name in ["/no/such/folder/x.png", "/no/such/folder/x.svg"] {
            let paint = |area: &Area<'_>| -> Result<()> { Ok(area.present()?) };
            let error = draw(Path::new(name), (10, 10), paint).unwrap_err();
            assert!(error.to_string().contains(name), "{error}");
        }
    }
}
